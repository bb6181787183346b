"""The libsodium functions of the control protocol, by ctypes. Exits with status 77 if the library is missing."""
import ctypes
import ctypes.util
import sys

try:
    _lib = ctypes.CDLL(ctypes.util.find_library("sodium") or "libsodium.so.23")
except OSError:
    print("no libsodium shared library")
    sys.exit(77)
_lib.sodium_init()

TAG = 16


def x25519(secret, public=None):
    """Returns secret times the peer's public key, or the secret's public key if there is none."""
    out = ctypes.create_string_buffer(32)
    if public is None:
        _lib.crypto_scalarmult_base(out, secret)
    elif _lib.crypto_scalarmult(out, secret, public) != 0:
        raise ValueError("not a public key")
    return out.raw


def seal(key, nonce, text, header):
    """ChaCha20-Poly1305 (IETF). Returns the encrypted text and its tag."""
    out = ctypes.create_string_buffer(len(text) + TAG)
    _lib.crypto_aead_chacha20poly1305_ietf_encrypt(
        out, None, text, ctypes.c_ulonglong(len(text)), header, ctypes.c_ulonglong(len(header)), None, nonce, key)
    return out.raw


def unseal(key, nonce, sealed, header):
    out = ctypes.create_string_buffer(max(len(sealed) - TAG, 1))
    if _lib.crypto_aead_chacha20poly1305_ietf_decrypt(
            out, None, None, sealed, ctypes.c_ulonglong(len(sealed)), header, ctypes.c_ulonglong(len(header)), nonce,
            key) != 0:
        raise ValueError("a frame is not authentic")
    return out.raw[:len(sealed) - TAG]
