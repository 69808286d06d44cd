"""What ./configure.py found, read from the --repo_env lines of .bazelrc.user."""

def setting(ctx, name):
    """Returns the value of one line of .bazelrc.user.

    Args:
      ctx: context of the repository rule that asks.
      name: name of the variable, ADASUM_...

    Returns:
      Its value, possibly empty.
    """
    if name not in ctx.os.environ:
        fail("Expected %s in .bazelrc.user. Received: nothing. Run ./configure.py first." % name)
    return ctx.os.environ[name]
