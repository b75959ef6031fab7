"""The command `samara`, paused after the first rows of a campaign: it prints "held" and waits for the end of its input."""

import sys

import samara_command
from samara.campaigns.store import Store

write = Store.write


def write_and_wait(*arguments: object) -> None:
    write(*arguments)
    Store.write = write
    print("held", flush=True)
    sys.stdin.read()


Store.write = write_and_wait
samara_command.main()
