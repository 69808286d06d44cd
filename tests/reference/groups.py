"""The groups of ranks that meet in a round, by recursion over the blocks of a row of ranks."""


def groups_of_round(num_ranks, group_size, round_number):
    """Returns the groups, each a sorted list of ranks.

    A power of two of ranks goes by a butterfly: log2(group_size) bits of the rank, each round the
    next ones, tell the members of a group apart. Other numbers are cut into powers of two, the
    largest first, in a row of ranks that begins a rank earlier each round.
    """
    row = list(range(num_ranks))
    if num_ranks & (num_ranks - 1):
        first = -round_number % num_ranks
        row = row[first:] + row[:first]
    groups = []
    while row:
        block = 1 << (len(row).bit_length() - 1)
        groups += _butterfly(row[:block], group_size, round_number)
        row = row[block:]
    return groups


def _butterfly(block, group_size, round_number):
    num_bits = len(block).bit_length() - 1
    num_chosen = min(group_size.bit_length() - 1, num_bits)
    bits = {(round_number * num_chosen + i) % num_bits for i in range(num_chosen)}
    by_rest = {}
    for place, rank in enumerate(block):
        rest = tuple(place >> bit & 1 for bit in range(num_bits) if bit not in bits)
        by_rest.setdefault(rest, []).append(rank)
    return [sorted(group) for group in by_rest.values()]
