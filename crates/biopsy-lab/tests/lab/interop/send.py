"""Sends a sealed file by tuspy, which knows nothing of biopsy; each call of requests gets what each call of ours has."""

import base64
import sys

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tusclient.client import TusClient

lab, request, secret, file = sys.argv[1:]
private = Ed25519PrivateKey.generate()
raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def text(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def prove(call):
    names = ["upload-offset", "upload-length", "upload-checksum", "upload-metadata"]
    value = lambda name: call.headers.get(name, "-")
    value = [v.decode() if isinstance(v, bytes) else v for v in map(value, names)]
    signed = "\n".join([call.method, call.path_url, *value])
    call.headers["authorization"] = f"Bearer {secret}"
    call.headers["biopsy-key"] = text(raw)
    call.headers["biopsy-proof"] = text(private.sign(f"biopsy call 1\n{signed}".encode()))


send = requests.Session.send
requests.Session.send = lambda self, call, **more: (prove(call), send(self, call, **more))[1]
client = TusClient(f"{lab}/api/uploads?request={request}")
uploader = client.uploader(file, chunk_size=256 * 1024, metadata={"consent": '["by tuspy"]'})
# Half of it, and then another uploader goes on from what the lab says.
uploader.upload(stop_at=uploader.get_file_size() // 2)
again = client.uploader(file, chunk_size=256 * 1024, url=uploader.url)
assert 0 < again.offset < again.get_file_size(), again.offset
again.upload()
print(again.url)
