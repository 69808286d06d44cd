"""What adasumrun makes of a file of hosts."""

import pytest

from adasumrun import cli, hosts, mpirun


def test_hosts_of_a_file(tmp_path):
    path = tmp_path / "hosts"
    path.write_text(
        "# ours\na slots=2 max_slots=4\n\nb:3  # fast\nc\nd slots = 4\ne slots= 5 max_slots =9\n"
    )
    assert cli._parse(["--hostfile", str(path), "sh"]).hosts == "a:2,b:3,c,d:4,e:5"
    assert hosts.slots("a:2,b:3,c,d:4,e:5") == 15


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a host on some line. Received: none"),
        ("# nothing\n", "expected a host on some line. Received: none"),
        ("a\nb slots=many\n", "expected slots=RANKS. Received: 'b slots=many'"),
        ("a slots =\n", "expected slots=RANKS. Received: 'a slots ='"),
        ("a slots=0\n", "expected HOST or HOST:RANKS. Received: 'a:0'"),
        ("a\n???\n", "expected HOST or HOST:RANKS. Received: '???'"),
    ],
)
def test_a_file_without_hosts_is_refused(tmp_path, text, said, capsys):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        cli._parse(["--hostfile", str(path), "sh"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: argument --hostfile: {path}: {said}\n")


def _with_file(path, text, *words):
    path.write_text(text)
    options = cli._parse(["--hostfile", str(path), *words, "sh"])
    return options, options.hosts.shares


def test_shares_of_a_file(tmp_path):
    text = "a slots=2 share=1\nb:3 share = 2.5 # fast\nc\n"
    options, shares = _with_file(tmp_path / "hosts", text)
    assert options.hosts == "a:2,b:3,c"
    assert mpirun.rank_shares(options, shares) == "1,1,2.5,2.5,2.5,1"
    # As after a restart without a host.
    options.hosts, options.np = "b:3,c", 2
    assert mpirun.rank_shares(options, shares) == "2.5,2.5"
    assert _with_file(tmp_path / "hosts", "a slots=2\nb\n")[1] == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-np", "4"), "Received: 4 ranks, 3 slots"),
        (("--mpi-args=--map-by node",), "Received: map-by in --mpi-args"),
        (("--mpi-args=-ppn 2",), "Received: ppn in --mpi-args"),
    ],
)
def test_shares_are_for_ranks_in_the_order_of_the_hosts(tmp_path, words, said):
    options, shares = _with_file(tmp_path / "hosts", "a slots=2 share=3\nb\n", *words)
    with pytest.raises(mpirun.LaunchError, match=said):
        mpirun.rank_shares(options, shares)


@pytest.mark.parametrize("share", ["", "0", "-1", "nan", "inf", "much"])
def test_shares_are_numbers_above_zero(tmp_path, share, capsys):
    with pytest.raises(SystemExit):
        _with_file(tmp_path / "hosts", f"a share={share}\n")
    wanted = f"expected share=NUMBER, above 0. Received: 'a share={share}'\n"
    assert capsys.readouterr().err.endswith(wanted)


def test_a_file_of_hosts_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "none"
    with pytest.raises(SystemExit):
        cli._parse(["--hostfile", str(path), "sh"])
    wanted = f"expected a file of hosts. Received: {path}: No such file or directory\n"
    assert capsys.readouterr().err.endswith(wanted)
