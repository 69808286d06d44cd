"""Sentences whose words' neighbours are drawn so that analogies hold in their statistics.

A word of a family has a topic t and a relation r: london is the capital of the topic england. The
words beside it are drawn independently of each other: some by its topic, some by its relation, some
by neither. So the probability of any neighbour c is

    p(c | t, r) = a f_t(c) + b g_r(c) + (1 - a - b) h(c)

with distributions f, g and h on words that they do not share. Then log p(c | t, r) is a sum of what
depends on t and what depends on r, and

    log p(. | t, r) - log p(. | t, s) + log p(. | u, s) = log p(. | u, r)

which is the analogy (t, r) to (t, s) as (u, r) to (u, s). Skip-gram with negative sampling
factorises log p(c | w) less what depends on c alone.

Source: O. Levy, Y. Goldberg, "Neural Word Embedding as Implicit Matrix Factorization", 2014.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from models.word2vec.families import FAMILIES, Family

# Words of a sentence besides that of a family, by what they are drawn from.
OF_TOPIC, OF_RELATION, FILLERS = 2, 2, 2
# Neighbours that belong to one topic, and to one relation.
PER_TOPIC, PER_RELATION = 3, 6
# Share of the topic's neighbours that is drawn from all topics alike; of the relation's as well.
STRAY = 0.1
NUM_FILLERS = 200


class Neighbours:
    """The words that stand beside others, and the distributions that they are drawn from.

    Args:
        families: whose topics and relations have neighbours.

    Attributes:
        words: all neighbours: those of topics, those of relations, and fillers.
        by_topic: f of the module's text, [topics of all families, words].
        by_relation: g, [relations of all families, words].
        by_none: h, [words], falls as 1 / rank, as words of a language do.
    """

    def __init__(self, families: tuple[Family, ...] = FAMILIES):
        topics = [topic[0] for family in families for topic in family.topics]
        relations = [relation for family in families for relation in family.relations]
        of_topics = [f"{topic}-{i}" for topic in topics for i in range(PER_TOPIC)]
        of_relations = [f"{relation}-{i}" for relation in relations for i in range(PER_RELATION)]
        self.words = of_topics + of_relations + [f"filler-{i}" for i in range(NUM_FILLERS)]
        self.by_topic = np.zeros((len(topics), len(self.words)))
        self.by_topic[:, : len(of_topics)] = _mostly_own(len(topics), PER_TOPIC)
        self.by_relation = np.zeros((len(relations), len(self.words)))
        relation_part = slice(len(of_topics), len(of_topics) + len(of_relations))
        self.by_relation[:, relation_part] = _mostly_own(len(relations), PER_RELATION)
        self.by_none = np.zeros(len(self.words))
        self.by_none[-NUM_FILLERS:] = 1 / np.arange(1, NUM_FILLERS + 1)
        self.by_none /= self.by_none.sum()

    def probabilities(self, topic: int, relation: int) -> np.ndarray:
        """p(c | t, r): of the words beside one with this topic and this relation."""
        total = (
            OF_TOPIC * self.by_topic[topic]
            + OF_RELATION * self.by_relation[relation]
            + FILLERS * self.by_none
        )
        return total / (OF_TOPIC + OF_RELATION + FILLERS)


def members(families: tuple[Family, ...] = FAMILIES) -> list[tuple[str, int, int]]:
    """All words of the families, each with the numbers of its topic and its relation."""
    found = []
    topics = relations = 0
    for family in families:
        for t, words in enumerate(family.topics):
            found += [(word, topics + t, relations + r) for r, word in enumerate(words)]
        topics += len(family.topics)
        relations += len(family.relations)
    return found


def sentences(number: int, seed: int) -> Iterator[list[str]]:
    """Draws sentences, each of one word of a family, any of them alike, among its neighbours.

    Args:
        number: of sentences.
        seed: the same seed gives the same sentences.
    """
    random = np.random.default_rng(seed)
    words, neighbours = members(), Neighbours()
    drawn_from = (neighbours.by_topic, neighbours.by_relation, neighbours.by_none[None])
    cumulated = [distribution.cumsum(axis=1) for distribution in drawn_from]
    for chosen in random.integers(len(words), size=number):
        word, topic, relation = words[chosen]
        sentence = [word]
        for sums, row, count in zip(
            cumulated, (topic, relation, 0), (OF_TOPIC, OF_RELATION, FILLERS)
        ):
            found = np.searchsorted(sums[row], random.random(count) * sums[row][-1], side="right")
            sentence += [neighbours.words[i] for i in found]
        random.shuffle(sentence)
        yield sentence


def _mostly_own(groups: int, size: int) -> np.ndarray:
    """Row i: all but STRAY evenly on the i-th group of words, STRAY evenly on all groups."""
    own = np.repeat(np.eye(groups), size, axis=1) / size
    return (1 - STRAY) * own + STRAY / (groups * size)
