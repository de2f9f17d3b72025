"""The command line: one module per command.

A public module here (not ``main``, no leading underscore) is one command, named after its file with ``_`` as ``-``.
It defines ``command``, a ``click.Command`` or ``click.Group`` made with the classes of ``_click``, and imports anything
heavy (pydantic, numpy, rich, asyncio, the rest of fairlane but ``errors``) inside the function, so that
``fairlane --help`` stays quick.
"""
