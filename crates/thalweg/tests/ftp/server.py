"""A server of FTP (RFC 959) for one client after another: it returns the files that it was sent.

    server.py ADDRESS

Python has a client of FTP, but no server. This one knows that client's commands, opens data
connections in both modes, and prints a line when it listens.
"""

import socket
import sys


def serve(control, address):
    """Answers the commands of one client."""
    files, passive, active = {}, None, None

    def say(text):
        control.sendall(text.encode() + b"\r\n")

    def data():
        if passive is not None:
            return passive.accept()[0]
        return socket.create_connection(active, timeout=20)

    say("220 ready")
    for line in control.makefile("r", newline="\r\n"):
        command, _, argument = line.strip().partition(" ")
        if command == "USER":
            say("331 password")
        elif command == "PASS":
            say("230 welcome")
        elif command == "TYPE":
            say("200 as you like")
        elif command == "PASV":
            passive = socket.create_server((address, 0))
            passive.settimeout(20)
            port = passive.getsockname()[1]
            numbers = address.split(".") + [str(port >> 8), str(port & 255)]
            say(f"227 Entering Passive Mode ({','.join(numbers)})")
        elif command == "PORT":
            numbers = argument.split(",")
            active = ".".join(numbers[:4]), int(numbers[4]) << 8 | int(numbers[5])
            passive = None
            say("200 I shall connect")
        elif command == "STOR":
            say("150 send")
            with data() as connection:
                files[argument] = connection.makefile("rb").read()
            say("226 done")
        elif command == "RETR":
            say("150 look")
            with data() as connection:
                connection.sendall(files[argument])
            say("226 done")
        elif command == "QUIT":
            say("221 farewell")
            return
        else:
            say("502 unknown")


def main():
    address = sys.argv[1]
    listener = socket.create_server((address, 21))
    print("listening", flush=True)
    while True:
        control, peer = listener.accept()
        print(peer[0], flush=True)
        control.settimeout(20)
        with control:
            serve(control, address)


main()
