import json

import pytest

from models.secrets import REMOVED, is_secret, scrub, scrub_bytes, scrub_text


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "VLLM_API_KEY", "aws_secret_access_key", "PGPASSWORD", "GOOGLE_CREDENTIALS",
     "NCCL_AUTH", "authorization"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["NCCL_P2P_DISABLE", "CUDA_VISIBLE_DEVICES", "PATH"])
def test_other_names(name: str) -> None:
    assert not is_secret(name)


def test_scrub_takes_secrets_at_any_depth_and_leaves_the_original() -> None:
    data = {"env": {"HF_TOKEN": "hidden", "NCCL_DEBUG": "INFO"}, "list": [{"api_key": "hidden"}]}
    assert scrub(data) == {"env": {"NCCL_DEBUG": "INFO"}, "list": [{}]}
    assert data["env"] == {"HF_TOKEN": "hidden", "NCCL_DEBUG": "INFO"}


def test_counts_and_model_words_stay() -> None:
    spec = {
        "num_key_value_heads": 8,
        "max_num_batched_tokens": 4096,
        "eos_token_id": [1, 2],
        "bos_token": "<s>",
        "tokenizer_mode": "auto",
        "total_input_tokens": 12,
        "trust_auth": True,
    }
    assert scrub(spec) == spec


def test_strict_drops_even_innocent_names() -> None:
    assert scrub({"TOKENIZERS_PARALLELISM": "false"}) == {"TOKENIZERS_PARALLELISM": "false"}
    assert scrub({"TOKENIZERS_PARALLELISM": "false"}, strict=True) == {}


def test_numbers_can_be_passwords() -> None:
    assert scrub({"db_password": 1234, "tokens": 1234}) == {"tokens": 1234}


def test_command_lines_and_urls() -> None:
    command = ["serve", "--api-key", "hidden", "--max-num-batched-tokens", "4096", "--key=hidden"]
    assert scrub({"argv": command})["argv"] == [
        "serve", "--api-key", REMOVED, "--max-num-batched-tokens", "4096", f"--key={REMOVED}",
    ]  # fmt: skip
    assert scrub_text("postgresql://me:hidden@host/db") == f"postgresql://{REMOVED}@host/db"
    assert scrub_text("Authorization: Bearer hidden") == f"Authorization: Bearer {REMOVED}"


def test_bytes_without_secrets_are_the_same_bytes() -> None:
    data = b'{"total_input_tokens": 4096,\r\n "tokenizer_id": "a/b"}'
    assert scrub_bytes(data) is data
    assert scrub_bytes(b"\xff\xfe\x00binary") == b"\xff\xfe\x00binary"


def test_json_bytes_lose_their_secrets() -> None:
    data = json.dumps({"env": {"HF_TOKEN": "hidden", "PATH": "/bin"}, "x": [1.5]}).encode()
    assert json.loads(scrub_bytes(data)) == {"env": {"PATH": "/bin"}, "x": [1.5]}


def test_text_bytes_lose_their_secrets() -> None:
    text = "export HF_TOKEN=hidden\nVLLM_API_KEY: 'hidden too'\nTotal tokens: 12\nbytes=3\n"
    cleaned = scrub_bytes(text.encode()).decode()
    assert "hidden" not in cleaned
    assert "Total tokens: 12" in cleaned
    assert "bytes=3" in cleaned
