"""Values as elements: encoded once, addressed by the digest of their bytes, stored once a thread.

Owns the digest, what is small enough to stand inline, and the seam to the serializer, encrypted or
not. A digest is always taken over freshly encoded plaintext: objects are mutated behind our back,
and ciphertext is random.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from hashlib import blake2b
from typing import Any, Final

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from pyrula_core.errors import JournalError
from pyrula_langgraph.serde import CODEC

__all__ = ["Elements", "ValueCodec", "digest_of", "inline_bytes_max", "is_leaf", "is_tree"]

inline_bytes_max: Final = 40
digest_bytes: Final = 16
tree_bytes_min: Final = 512

INLINE: Final = b"\x00"
LEAF: Final = b"\x01"
TREE: Final = b"\x02"

OWN: Final = b"\x00"
PLAIN: Final = b"\x00"
SEALED: Final = b"\x01"


def digest_of(plain: bytes) -> bytes:
    """Return the address of an element."""
    return blake2b(plain, digest_size=digest_bytes).digest()


def is_leaf(node: bytes) -> bool:
    """Return whether a node refers to an element that holds a value."""
    return node[:1] == LEAF


def is_tree(node: bytes) -> bool:
    """Return whether a node refers to an element that holds another node."""
    return node[:1] == TREE


class ValueCodec:
    """The serializer as the rows see it: one bytes form per value, sealed as a whole record."""

    __slots__ = ("_cipher", "_dumps", "_loads")

    def __init__(self, serde: SerializerProtocol) -> None:
        self._cipher: Any = None
        if isinstance(serde, EncryptedSerializer):
            self._cipher, serde = serde.cipher, serde.serde
        self._dumps: Callable[[Any], tuple[str, bytes]] = serde.dumps_typed
        self._loads: Callable[[tuple[str, bytes]], Any] = serde.loads_typed

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a value, which name their codec."""
        codec, raw = self._dumps(value)
        if codec == CODEC:
            return OWN + raw
        name = codec.encode()
        return bytes((len(name),)) + name + raw

    def decode(self, plain: bytes) -> Any:
        """Return the value of its bytes."""
        size = plain[0]
        if size == 0:
            return self._loads((CODEC, plain[1:]))
        return self._loads((plain[1 : 1 + size].decode(), plain[1 + size :]))

    def seal(self, plain: bytes) -> bytes:
        """Return what is stored of a record: encrypted where a cipher is set."""
        if self._cipher is None:
            return PLAIN + plain
        name, hidden = self._cipher.encrypt(plain)
        label = name.encode()
        return b"".join((SEALED, bytes((len(label),)), label, hidden))

    def open(self, stored: bytes) -> bytes:
        """Return the plaintext of a stored record; plaintext is refused where a cipher is set."""
        if stored[:1] == PLAIN and self._cipher is None:
            return stored[1:]
        if stored[:1] != SEALED or self._cipher is None:
            raise JournalError(
                "a checkpoint record is encrypted and no cipher is set, or the other way round",
                hint="Open the thread with the serializer it was written with",
            )
        end = 2 + stored[1]
        opened: bytes = self._cipher.decrypt(stored[2:end].decode(), stored[end:])
        return opened


class Elements:
    """Collects the elements one write needs; ``fresh`` are those not known to be stored yet."""

    __slots__ = ("_known", "codec", "fresh")

    def __init__(self, codec: ValueCodec, known: Container[bytes]) -> None:
        self.codec = codec
        self._known = known
        self.fresh: dict[bytes, bytes] = {}

    def leaf(self, value: Any) -> bytes:
        """Return the node of a value: inline when it is small, else its element's address."""
        plain = self.codec.encode(value)
        if len(plain) <= inline_bytes_max:
            return INLINE + plain
        return LEAF + self.store(plain)

    def tree(self, wire: Any) -> Any:
        """Return a node as it is, or, when it is large, the address of an element holding it."""
        if type(wire) is bytes:
            return wire
        plain = ormsgpack.packb(wire)
        return wire if len(plain) < tree_bytes_min else TREE + self.store(plain)

    def chunk(self, nodes: list[Any]) -> bytes:
        """Return the address of an element holding a run of nodes."""
        return self.store(ormsgpack.packb(nodes))

    def has(self, digest: bytes) -> bool:
        """Return whether an element is stored, or part of this write."""
        return digest in self._known or digest in self.fresh

    def store(self, plain: bytes) -> bytes:
        """Return the address of an element, adding it to this write unless it is stored."""
        digest = digest_of(plain)
        if not self.has(digest):
            self.fresh[digest] = plain
        return digest
