"""What adasumrun makes of a file of hosts."""

import pytest

from adasumrun import command_line, hosts, mpirun


def test_hosts_of_a_file(tmp_path):
    path = tmp_path / "hosts"
    path.write_text(
        "# ours\na slots=2 max_slots=4\n\nb:3  # fast\nc\nd slots = 4\ne slots= 5 max_slots =9\n"
        "// more\nf cpu=2 port=22 username=me // slow\ng count=3 sockets=2 ansible_user=me\n"
    )
    listed = command_line.parse(["--hostfile", str(path), "sh"]).hosts
    assert listed == "a:2,b:3,c,d:4,e:5,f:2,g:3"
    assert hosts.slots("a:2,b:3,c,d:4,e:5") == 15


def test_a_file_with_a_mark_and_comments_of_another_encoding(tmp_path):
    path = tmp_path / "hosts"
    path.write_bytes(b"\xef\xbb\xbfa slots=2\r\n# caf\xe9\r\nb\r\n")
    assert command_line.parse(["--hostfile", str(path), "sh"]).hosts == "a:2,b"


_SLIP = "expected words such as slots=RANKS and share=NUMBER behind a host. Received: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a host on some line. Received: none"),
        ("# nothing\n", "expected a host on some line. Received: none"),
        ("a\nb slots=many\n", "expected slots=RANKS. Received: 'b slots=many'"),
        ("a slots =\n", "expected slots=RANKS. Received: 'a slots ='"),
        ("a slots=0\n", "expected HOST or HOST:RANKS. Received: 'a:0'"),
        ("a slots=\u0662\n", "expected HOST or HOST:RANKS. Received: 'a:\u0662'"),
        ("a:2147483648\n", "expected HOST or HOST:RANKS. Received: 'a:2147483648'"),
        ("a slot=4\n", _SLIP + "'slot=4' in 'a slot=4'"),
        ("a\nb sahre=2\n", _SLIP + "'sahre=2' in 'b sahre=2'"),
        ("a Slots=4\n", _SLIP + "'Slots=4' in 'a Slots=4'"),
        ("a slots 4\n", _SLIP + "'slots' in 'a slots 4'"),
        ("a 4 all.q UNDEFINED\n", _SLIP + "'4' in 'a 4 all.q UNDEFINED'"),
        ("a\nb,c share=2\n", "expected one host on a line. Received: 'b,c share=2'"),
        ("a\n???\n", "expected HOST or HOST:RANKS. Received: '???'"),
    ],
)
def test_a_file_without_hosts_is_refused(tmp_path, text, said, capsys):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        command_line.parse(["--hostfile", str(path), "sh"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: argument --hostfile: {path}: {said}\n")


def _with_file(path, text, *words):
    path.write_text(text)
    options = command_line.parse(["--hostfile", str(path), *words, "sh"])
    return options, options.hosts.shares


def test_shares_of_a_file(tmp_path):
    text = "a slots=2 share=1\nb:3 share = 2097152.5 # fast\nc\n"
    options, shares = _with_file(tmp_path / "hosts", text)
    assert options.hosts == "a:2,b:3,c"
    assert mpirun.rank_shares(options, shares) == "1,1,2097152.5,2097152.5,2097152.5,1"
    # As after a restart without a host.
    options.hosts, options.np = "b:3,c", 2
    assert mpirun.rank_shares(options, shares) == "2097152.5,2097152.5"
    assert _with_file(tmp_path / "hosts", "a slots=2\nb\n")[1] == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-np", "4"), "Received: 4 ranks, 3 slots$"),
        (("--mpi-args=--map-by node",), "Received: map-by in --mpi-args"),
        (("--mpi-args=-ppn 2",), "Received: ppn in --mpi-args"),
    ],
)
def test_shares_are_for_ranks_in_the_order_of_the_hosts(tmp_path, words, said):
    options, shares = _with_file(tmp_path / "hosts", "a slots=2 share=3\nb\n", *words)
    with pytest.raises(mpirun.LaunchError, match=said):
        mpirun.rank_shares(options, shares)


def test_one_slot_is_one(tmp_path):
    options, shares = _with_file(tmp_path / "hosts", "a share=3\n", "-np", "2")
    with pytest.raises(mpirun.LaunchError, match=r"Received: 2 ranks, 1 slot$"):
        mpirun.rank_shares(options, shares)


@pytest.mark.parametrize("share", ["", "0", "-1", "nan", "inf", "much"])
def test_shares_are_numbers_above_zero(tmp_path, share, capsys):
    with pytest.raises(SystemExit):
        _with_file(tmp_path / "hosts", f"a share={share}\n")
    wanted = f"expected share=NUMBER, above 0. Received: 'a share={share}'\n"
    assert capsys.readouterr().err.endswith(wanted)


@pytest.mark.parametrize(
    ("text", "name"),
    [("a share=1\nb share=3\na\n", "a"), ("127.0.0.1\nb share=3\nlocalhost:2\n", "localhost")],
)
def test_shares_are_for_hosts_on_one_line(tmp_path, text, name, capsys):
    # To mpirun's ranks the order is a, a, b.
    with pytest.raises(SystemExit):
        _with_file(tmp_path / "hosts", text)
    wanted = f"expected one line for each host where any has share=. Received: {name} again\n"
    assert capsys.readouterr().err.endswith(wanted)


def test_hosts_without_shares_may_stand_on_two_lines(tmp_path):
    assert _with_file(tmp_path / "hosts", "a\nb\na\n")[0].hosts == "a,b,a"


def test_a_file_of_hosts_that_is_not_there(tmp_path, capsys):
    path = tmp_path / "none"
    with pytest.raises(SystemExit):
        command_line.parse(["--hostfile", str(path), "sh"])
    wanted = f"expected a file of hosts. Received: {path}: No such file or directory\n"
    assert capsys.readouterr().err.endswith(wanted)
