"""The command `samara`, held after the first rows of a campaign: it says so and waits until its standard input ends."""

import sys

import samara_command
from samara.campaigns.store import Store

write = Store.write


def written_and_held(*own: object) -> None:
    write(*own)
    Store.write = write
    print("held", flush=True)
    sys.stdin.read()


Store.write = written_and_held
samara_command.main()
