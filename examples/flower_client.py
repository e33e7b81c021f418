#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of somebody else's federated server that ParaDL trains.

Models go as a list of arrays in a fixed order, as Flower's NumPyClient has it:
derive from that class too, and hand an object of this one to its start. The
list is the tensors of a safetensors file in the order of their offsets. With
numpy arrays are numpy's; without, they are array.array and flat.
"""
import array
import json
import os
import struct
import subprocess
import tempfile

try:
    import numpy
except ImportError:
    numpy = None


def read(path):
    """Names and shapes, and the list of arrays."""
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(size))
        data = f.read()
    header.pop("__metadata__", None)
    table = sorted(((n, t["shape"], t["data_offsets"])
                    for n, t in header.items()), key=lambda x: x[2])
    arrays = []
    for _, shape, (begin, end) in table:
        if numpy:
            x = numpy.frombuffer(data[begin:end], "<f4").reshape(shape)
        else:
            x = array.array("f", data[begin:end])
        arrays.append(x)
    return [(n, s) for n, s, _ in table], arrays


def write(path, table, arrays):
    header, data = {}, b""
    for (name, shape), x in zip(table, arrays):
        raw = x.astype("<f4").tobytes() if numpy else x.tobytes()
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Client:
    """Client number `client` of `clients` that share the data set."""

    def __init__(self, client, model, data, clients, *options,
                 paradl="paradl"):
        self.client, self.paradl = client, paradl
        self.run = [paradl, "federate", model, "--data", data, "--clients",
                    str(clients), *options]
        self.folder = tempfile.TemporaryDirectory()
        self.table = None

    def _train(self, *options):
        out = os.path.join(self.folder.name, "out.safetensors")
        # one worker: a client alone has nothing to share
        subprocess.run([*self.run, "--only", str(self.client), "--virtual",
                        "-n", "1", "--no-test", "--quiet", "--save", out,
                        *options], check=True, stdout=subprocess.DEVNULL)
        self.table, arrays = read(out)
        return arrays

    def get_parameters(self, config):
        """First weights: of the seed, the same for all clients."""
        return self._train("--rounds", "0")

    def fit(self, parameters, config):
        into = os.path.join(self.folder.name, "in.safetensors")
        if self.table is None:
            self.get_parameters({})
        write(into, self.table, parameters)
        arrays = self._train("--load", into, "--rounds", "1", "--first-round",
                             str(config.get("round", 0)))
        return arrays, self.samples(), {}

    def samples(self):
        shown = subprocess.run([*self.run, "--show-partition", "--json"],
                               check=True, capture_output=True).stdout
        return json.loads(shown)["samples"][self.client]["samples"]
