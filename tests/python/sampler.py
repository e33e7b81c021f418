# SPDX-License-Identifier: Apache-2.0
"""Orders: those of the C program, on any number of ranks, resumed anywhere."""
import doctest
import os
import pickle
import subprocess
import sys
import unittest

import paradl
from paradl import sampling
from paradl.sampling import Order

SHUFFLES = ("global", "none", "local", "partial:q=0.3", "pair")
HIDES = ("none", "kakurenbo:f=0.3", "infobatch", "ies", "seta", "random",
         "iswr", "sb")
SAMPLES, BATCH, EPOCHS, SEED = 1811, 840, 3, 7  # 840: for 1 to 8 ranks


def pairs():
    """Every way to deal and every way to hide that go together."""
    for shuffle in SHUFFLES:
        for hide in HIDES:
            try:
                Order(SAMPLES, BATCH, epochs=EPOCHS, shuffle=shuffle,
                      hide=hide, workers=2)
            except paradl.InputError:
                continue
            yield shuffle, hide


def see(order):
    """As tests/python/batches.c makes losses up."""
    samples = [s for b in range(order.batches) for s in order.batch(b)]
    if order.refreshes:
        samples += order.hidden
    e = order.epoch
    order.saw(samples, [(s * 37 + e * 11) % 101 / 50 for s in samples],
              [(s + e) % 3 != 0 for s in samples])


def lines(order, ranks):
    """The epoch as tests/python/batches.c prints it."""
    yield f"epoch {order.epoch} rate {order.rate:.17g}"
    for rank in range(ranks):
        for b in range(order.batches):
            yield " ".join([f"{rank} {b}:",
                            *map(str, order.part(b, rank, ranks))])


class Orders(unittest.TestCase):
    def make(self, shuffle, hide, ranks=2, micros=1):
        return Order(SAMPLES, BATCH, epochs=EPOCHS, shuffle=shuffle, hide=hide,
                     seed=SEED, workers=ranks, micros=micros)

    def test_docstrings(self):
        self.assertEqual(doctest.testmod(sampling).failed, 0)

    def test_same_as_the_program(self):
        program = os.environ.get("PDL_BATCHES")
        if not program:
            self.skipTest("no paradl-run here: nothing to compare with")
        compared = 0
        for shuffle, hide in pairs():
            for ranks in range(1, 9):
                micros = 2 if ranks in (2, 4) else 1
                want = subprocess.run(
                    [program, shuffle, hide] + [str(n) for n in (
                        SAMPLES, BATCH, EPOCHS, ranks, micros, SEED)],
                    stdout=subprocess.PIPE, check=True,
                    text=True).stdout.splitlines()
                order, got = self.make(shuffle, hide, ranks, micros), []
                for _ in range(EPOCHS):
                    order.next()
                    got += lines(order, ranks)
                    see(order)
                self.assertEqual(got, [w.strip() for w in want],
                                 (shuffle, hide, ranks))
                compared += len(got)
        self.assertGreater(compared, 3000)

    def test_goes_on_in_the_middle(self):
        for shuffle, hide in pairs():
            for ranks in range(1, 9):
                self.goes_on(shuffle, hide, ranks)

    def goes_on(self, shuffle, hide, ranks):
        order = self.make(shuffle, hide, ranks)
        order.next()
        see(order)
        order.next()
        order.saw(order.batch(0), [.5] * BATCH, [True] * BATCH)
        for other in (pickle.loads(pickle.dumps(order)),
                      self.make(shuffle, hide, ranks)):
            if other.epoch < 0:
                other.load_state_dict(order.state_dict())
            self.assertEqual(list(lines(other, ranks)),
                             list(lines(order, ranks)))
            again = pickle.loads(pickle.dumps(order))
            for o in (other, again):
                see(o)
                o.next()
            self.assertEqual(list(lines(other, ranks)),
                             list(lines(again, ranks)), (shuffle, hide, ranks))

    def test_goes_back_to_before_the_first(self):
        for shuffle, hide in pairs():
            order = self.make(shuffle, hide)
            state = order.state_dict()
            order.next()
            first = list(lines(order, 2))
            see(order)
            order.next()
            order.load_state_dict(state)
            self.assertEqual(order.epoch, -1)
            order.next()
            self.assertEqual(list(lines(order, 2)), first, (shuffle, hide))

    def test_states_that_are_none(self):
        order = self.make("global", "kakurenbo:f=0.3")
        state = order.state_dict()
        for wrong in ({}, {**state, "settings": 3}, {**state, "epoch": None},
                      {**state, "epoch": -2},
                      {k: state[k] for k in ("settings", "epoch")}):
            with self.assertRaises(paradl.InputError):
                order.load_state_dict(wrong)

    def test_an_epoch_has_every_sample_once(self):
        order = self.make("global", "none")
        order.next()
        all_of = order.positions(0, order.batches * BATCH)
        self.assertEqual(len(set(all_of)), len(all_of))

    def test_hides(self):
        order = self.make("global", "kakurenbo:f=0.3")
        for _ in range(3):
            order.next()
            see(order)
        self.assertTrue(order.hidden)
        trained = order.positions(0, order.batches * BATCH)
        self.assertFalse(set(trained) & set(order.hidden))

    def test_told_confidences(self):
        """Over classes and told the same: the same; told low: none hidden."""
        hidden = []
        for axis, sure in (("class", None), ("batch", .9), ("batch", .5)):
            order = self.make("global", f"kakurenbo:conf_axis={axis}")
            order.next()
            everyone = list(range(SAMPLES))
            if sure:
                with self.assertRaises(ValueError):
                    order.saw(everyone, [.1] * SAMPLES, [True] * SAMPLES)
            order.saw(everyone, [.1] * SAMPLES, [True] * SAMPLES,
                      sure and [sure] * SAMPLES)
            other = pickle.loads(pickle.dumps(order))
            for o in (order, other):
                o.next()
            self.assertEqual(order.hidden, other.hidden)
            hidden.append(order.hidden)
        # of three epochs the second has 0.8 of f
        self.assertEqual(len(hidden[0]), int(.8 * .3 * SAMPLES))
        self.assertEqual(hidden[0], hidden[1])
        self.assertEqual(hidden[2], [])

    def test_wrong(self):
        for bad in (dict(shuffle="nosuch"), dict(hide="kakurenbo:x=1"),
                    dict(batch=1000), dict(labels=[1])):
            with self.assertRaises(paradl.InputError):
                Order(**{**dict(samples=10, batch=2), **bad})
        order = Order(10, 2)
        with self.assertRaises(ValueError):
            order.batch(0)
        order.next()
        for wrong in (lambda: order.batch(5), lambda: order.part(0, 3, 3),
                      lambda: order.positions(-1, 1),
                      lambda: order.saw([10], [1.], [True]),
                      lambda: order.weights([10]) or order.saw([-1], [1], [1])):
            with self.assertRaises(IndexError):
                wrong()
        with self.assertRaises(paradl.InputError):
            order.load_state_dict(Order(12, 2).state_dict())

    def test_after_a_fork(self):
        order = self.make("partial:q=0.3", "none")
        order.next()
        want = order.batch(0)
        child = os.fork()
        if child == 0:
            order.next()
            os._exit(0 if order.epoch == 1 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(order.batch(0), want)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
