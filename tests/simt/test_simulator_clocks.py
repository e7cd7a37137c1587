"""The clocks of blocks that hear of each other: they say what a clock of every lane for every lane would, in much less memory."""

import random
import tracemalloc

import numpy as np
import pytest

from zellige.simt.simulate.order import Clocks, Known, merged

LANES = 6
BLOCKS = 4


class Plain:
    """What Clocks means, written down without thought of memory: a number for each lane, block and other lane."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.known = np.zeros((BLOCKS, LANES + 1, LANES + 1), np.int32)
        np.fill_diagonal(self.known[number], 1)

    def advance(self, threads: np.ndarray) -> None:
        self.known[self.number, threads, threads] += 1

    def join(self, threads: np.ndarray) -> None:
        self.known[:, threads] = self.known[:, threads].max(axis=1)[:, None]
        self.advance(threads)

    def learn(self, threads: np.ndarray, row: np.ndarray) -> None:
        for number in range(BLOCKS):
            at_hand = row if number == self.number else self.known[number].max(axis=0)
            self.known[number][threads] = np.maximum(self.known[number][threads], at_hand)

    def snapshot(self, thread: int) -> np.ndarray:
        found = self.known[:, thread].copy()
        self.advance(np.array([thread]))
        return found


@pytest.mark.parametrize("seed", range(8))
def test_they_say_what_a_clock_of_every_pair_of_lanes_says(seed: int) -> None:
    chance = random.Random(seed)
    clocks, plain = [Clocks(LANES, n) for n in range(BLOCKS)], [Plain(n) for n in range(BLOCKS)]
    given: list[tuple[Known, np.ndarray]] = []
    everyone = np.arange(LANES)
    heard = 0
    for _ in range(400):
        block, lane = chance.randrange(BLOCKS), chance.randrange(LANES)
        some = np.array(sorted(chance.sample(range(LANES), chance.randint(1, LANES))))
        match chance.choice(("snapshot", "snapshot", "take", "take", "take", "join", "learn", "merge")):
            case "snapshot":
                given.append((clocks[block].snapshot(lane), plain[block].snapshot(lane)))
            case "take" if given:
                known, all_of_it = chance.choice(given)
                clocks[block].take(lane, known)
                plain[block].known[:, lane] = np.maximum(plain[block].known[:, lane], all_of_it)
            case "merge" if given:
                (one, all_of_one), (other, all_of_other) = chance.choice(given), chance.choice(given)
                given.append((merged(one, other), np.maximum(all_of_one, all_of_other)))
            case "join":
                clocks[block].join(some)
                plain[block].join(some)
            case "learn":
                row = clocks[block].released(some)
                plain[block].advance(some)
                clocks[block].learn(some, row)
                plain[block].learn(some, row)
            case _:
                continue
        np.testing.assert_array_equal(clocks[block].known, plain[block].known[block])
        for number in set(range(BLOCKS)) - {block}:
            threads, lanes = np.repeat(everyone, LANES), np.tile(everyone, LANES)
            epochs = plain[block].known[number][threads, lanes]
            heard += int(epochs.any())
            for more, is_known in ((0, np.ones(len(threads), bool)), (1, np.zeros(len(threads), bool))):
                answer = clocks[block].know_apart(threads, np.full(len(threads), number), lanes, epochs + more)
                np.testing.assert_array_equal(answer, is_known)
    assert heard > 400


def test_many_blocks_that_hear_of_all_others_take_little_memory() -> None:
    """As at a counter that each block raises and waits at: with a clock for each pair of lanes 132 blocks would take 4 GiB."""
    lanes, blocks = 256, 132
    everyone = np.arange(lanes)
    tracemalloc.start()
    clocks = [Clocks(lanes, n) for n in range(blocks)]
    counter: Known | None = None
    for of in clocks:
        of.join(everyone)
        counter = merged(counter, of.snapshot(0))
    assert counter is not None
    for of in clocks:
        of.take(0, counter)
        of.join(everyone)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert clocks[0].know_apart(everyone, np.full(lanes, 131), everyone, np.full(lanes, 1)).all()
    assert not clocks[0].know_apart(everyone, np.full(lanes, 131), everyone, np.full(lanes, 3)).any()
    assert size < 160 << 20, f"{size >> 20} MiB"
