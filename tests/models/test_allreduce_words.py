"""The sentences that explain a sweep."""

from models import allreduce_words as words


def test_published_5090_message_is_latency_bound():
    said = words.sentence(3072, 28, 0.06, 56)
    assert said.startswith("At 3 KB the transfer is 0.21 % of the time: a link with more bandwidth")
    assert "changes nothing" in said
    assert "56 calls a step that is 1.57 ms a step" in said
    assert "half the latency would save 0.78 ms" in said


def test_medium_messages_weigh_both():
    said = words.sentence(2**17, 10, 5)
    assert "33 % of the time: latency counts more than bandwidth" in said
    assert "twice the bandwidth would save 17 %, half the latency 33 %" in said
    assert "step" not in said


def test_large_messages_are_bandwidth_bound():
    said = words.sentence(2**24, 10, 90)
    assert "bandwidth counts more than latency; twice the bandwidth would save 45 %" in said


def test_link_off_in_words():
    said = words.link_sentence(3072, 6.5, 11.9, 57)
    assert "takes 11.9 us instead of 6.5 us, 83 % longer: +0.31 ms a step of 57 calls." in said
    assert "less than 2 %" in words.link_sentence(3072, 6.5, 6.55, None)
    assert "less long" in words.link_sentence(3072, 10, 8, None)


def test_launch_and_exposure():
    said = words.launch_sentence(3072, 6.5, 30)
    assert "23.5 us are launch cost" in said
    assert "Never multiply" in said
    assert "no more than back to back" in words.exposed_sentence(3072, 17, 16)
    assert "arriving at different times" in words.exposed_sentence(3072, 17, 32)


def test_kinks_in_words():
    assert "jumps up by 26 %" in words.kink_sentence(8192, 16384, 26.4)
    assert "drops by 40 %" in words.kink_sentence(8192, 16384, -40)
    assert "slope changes" in words.kink_sentence(8192, 16384, 1)


def test_percent_keeps_two_digits():
    assert [words.percent(v) for v in (0.034, 3.44, 41.2, 146)] == [
        "0.034 %",
        "3.4 %",
        "41 %",
        "146 %",
    ]
