"""Stores a file on a server of FTP and fetches it, in passive and in active mode.

    client.py ADDRESS
"""

import ftplib
import io
import sys

DATA = bytes(number * 7 % 251 for number in range(200_000))


def main():
    for is_passive in (True, False):
        for turn in range(3):
            ftp = ftplib.FTP(timeout=20)
            ftp.connect(sys.argv[1], 21)
            ftp.login("me", "secret")
            ftp.set_pasv(is_passive)
            ftp.storbinary("STOR it", io.BytesIO(DATA))
            received = []
            ftp.retrbinary("RETR it", received.append)
            assert b"".join(received) == DATA, (is_passive, turn)
            ftp.quit()


main()
