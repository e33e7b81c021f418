"""A second reader and writer of safetensors files, from the description of
the format only: prints what is in a file, or writes one.

  safetensors_peer.py read FILE
  safetensors_peer.py write FILE
"""
import json
import struct
import sys
import zlib


def read(path):
    data = open(path, "rb").read()
    (n,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    body = data[8 + n:]
    meta = header.pop("__metadata__", {})
    for key in sorted(meta):
        print(f"meta {key}={meta[key]}")
    end = 0
    for name, t in sorted(header.items(), key=lambda x: x[1]["data_offsets"]):
        a, b = t["data_offsets"]
        assert a == end, "a hole or an overlap"
        end = b
        width = {"F64": 8, "F32": 4, "BF16": 2, "U8": 1}[t["dtype"]]
        count = 1
        for d in t["shape"]:
            count *= d
        assert count * width == b - a, "bytes and shape differ"
        assert (8 + n + a) % width == 0, "not aligned"
        print(f"{name} {t['dtype']} {t['shape']} {zlib.crc32(body[a:b]):08x}")
    assert end == len(body), "bytes left over"


def write(path):
    x = struct.pack("<12f", *range(12))
    y = struct.pack("<5H", *range(100, 105))
    header = {
        "__metadata__": {"format": "pt"},
        "layer.y": {"dtype": "U16", "shape": [5],
                    "data_offsets": [48, 58]},
        "layer.x": {"dtype": "F32", "shape": [3, 4],
                    "data_offsets": [0, 48]},
    }
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + x + y)


{"read": read, "write": write}[sys.argv[1]](sys.argv[2])
