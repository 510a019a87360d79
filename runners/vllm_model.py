"""A model folder that vLLM can serve with dummy weights: config.json and a small tokenizer.

Written as plain JSON, so neither transformers nor tokenizers need to be installed here. Speed is
real, since the shapes are; the text means nothing.

The tokenizer is a byte-level BPE: 256 byte symbols, so that any text can be encoded, and made-up
words of one to four letters with a leading blank, each one token. The words form a tree (" ab" is
merged from " a" and "b"), so a run of them decodes and encodes back to itself and a benchmark's
random prompts keep the length that was asked for.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import count as count_from
from itertools import islice, product
from pathlib import Path
from typing import Any

from models.errors import InvalidSpec

END_OF_TEXT = "<|endoftext|>"
MAX_WORDS = 32_000
MIN_VOCABULARY = 512
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def byte_symbols() -> list[str]:
    """The 256 printable characters that byte-level BPE uses for bytes, in byte order.

    Source: GPT-2's table; printable bytes stand for themselves, the others are moved above 255.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    symbols, moved = [], 0
    for byte in range(256):
        if byte in printable:
            symbols.append(chr(byte))
        else:
            symbols.append(chr(256 + moved))
            moved += 1
    return symbols


def words(count: int) -> list[str]:
    """Made-up words with a leading blank, shorter ones first: each extends one before it."""

    def spelled() -> Iterator[str]:
        for length in count_from(1):
            for letters in product(_LETTERS, repeat=length):
                yield " " + "".join(letters)

    return list(islice(spelled(), count))


def vocabulary(vocab_size: int) -> tuple[dict[str, int], list[list[str]]]:
    """Token to id, and the merges in their order: end of text is 0, then the bytes, then words.

    Raises:
        InvalidSpec: The model's vocabulary is too small for 256 bytes and some words.
    """
    if vocab_size < MIN_VOCABULARY:
        raise InvalidSpec(
            f"A vocabulary of {vocab_size} tokens is too small for a made-up tokenizer.",
            f"Use a config.json with a vocab_size of at least {MIN_VOCABULARY}.",
        )
    symbols = byte_symbols()
    blank = symbols[ord(" ")]
    tokens = [END_OF_TEXT, *symbols]
    made = [blank + word[1:] for word in words(min(MAX_WORDS, vocab_size - len(tokens)))]
    merges = [[word[:-1], word[-1]] for word in made]
    return {token: number for number, token in enumerate([*tokens, *made])}, merges


def tokenizer_files(vocab_size: int) -> dict[str, dict[str, Any]]:
    """Content of tokenizer.json and tokenizer_config.json, by file name."""
    special = {
        "id": 0,
        "content": END_OF_TEXT,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    vocab, merges = vocabulary(vocab_size)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [special],
            "normalizer": None,
            "pre_tokenizer": {**byte_level, "use_regex": True},
            "post_processor": None,
            "decoder": {**byte_level, "use_regex": True},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": vocab,
                "merges": merges,
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 1_000_000_000,
            "eos_token": END_OF_TEXT,
            "pad_token": END_OF_TEXT,
            "clean_up_tokenization_spaces": False,
        },
    }


def served_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is written: no code of the model's own, and our tokenizer's special ids.

    Raises:
        InvalidSpec: It names no architecture or no vocabulary, or brings code.
    """
    if not config.get("architectures"):
        raise InvalidSpec(
            "The model's config.json names no architecture, so vLLM cannot build it.",
            'Add "architectures", for example ["Qwen2ForCausalLM"].',
        )
    if "auto_map" in config:
        raise InvalidSpec(
            "The model's config.json asks for code from the model's own folder.",
            "Choose a model that vLLM knows, or remove auto_map.",
        )
    size = config.get("vocab_size")
    if not isinstance(size, int) or isinstance(size, bool):
        raise InvalidSpec(
            "The model's config.json states no vocab_size.", "Add it as a whole number."
        )
    return {**config, "eos_token_id": 0, "bos_token_id": 0, "pad_token_id": 0}


def write_model_folder(folder: Path, config: Mapping[str, Any]) -> Path:
    """Write a folder that `vllm serve FOLDER --load-format dummy` accepts, and return it.

    Raises:
        InvalidSpec: The config cannot be served this way.
    """
    served = served_config(config)
    files = {**tokenizer_files(served["vocab_size"]), "config.json": served}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return folder
