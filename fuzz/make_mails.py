# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Writes small patch mails in the usual forms, as seeds.

usage: make_mails.py CORPUS_DIR
"""

import base64
import pathlib
import quopri
import sys

HUNK = """\
@@ -8,5 +8,5 @@ static int calm_select(struct cpuidle_driver *drv, struct cpuidle_device *dev)
 \tint idx = 0;

-\treturn idx;
+\treturn idx + 1;
 }

"""
NAMES = "--- a/drivers/cpuidle/governors/calm.c\n+++ b/drivers/cpuidle/governors/calm.c\n"
DIFF = f"""\
diff --git a/drivers/cpuidle/governors/calm.c b/drivers/cpuidle/governors/calm.c
index 1a2b3c4d5e6f..0f1e2d3c4b5a 100644
{NAMES}{HUNK}"""
MOVED = """\
diff --git a/x.c b/y.c
similarity index 90%
rename from x.c
rename to y.c
diff --git a/z.c b/z.c
new file mode 100644
--- /dev/null
+++ b/z.c
@@ -0,0 +1 @@
+int z;
\\ No newline at end of file
"""


def mail(subject, body, header=""):
    """Return a mail; ``header`` has whole lines."""
    return (
        f"From: =?utf-8?q?=C3=84?= <a@example.org>\nMessage-ID: <{len(body)}@example.org>\n"
        f"Date: Mon, 2 Mar 2026 10:00:00 +0100\nSubject: {subject}\n{header}\n{body}"
    )


def encoded(name, body):
    """Return a mail whose body has this transfer encoding."""
    return mail("[PATCH v2] calm: x", body, f"Content-Transfer-Encoding: {name}\n")


def mails():
    """Yield each seed with its name."""
    text = f"Reason.\n---\n x | 2 +-\n\n{DIFF}-- \n2.43.0\n"
    one, two = mail("[PATCH 1/2] calm: x", text), mail("[Update][PATCH v1.1 2/2] y", MOVED)
    yield "one", one
    yield "crlf", one.replace("\n", "\r\n")
    separator = "From x@y Thu Jan  1 00:00:00 1970\n"
    cover = mail("[PATCH 0/2] both", f"Why.\n\nbase-commit: {'ab' * 20}\n")
    yield "mbox", "".join(f"{separator}{each}\n" for each in (cover, one, two))
    printable = quopri.encodestring(text.encode()).decode()
    yield "quoted-printable", encoded("quoted-printable", printable)
    yield "base64", encoded("base64", base64.encodebytes(text.encode()).decode())
    yield "reply", mail("Re: [PATCH] x", "".join(f"> {line}\n" for line in text.splitlines()))
    yield "quilt", f"Index: linux/k.c\n===\n{NAMES.replace('a/', 'linux.orig/')}{HUNK}"
    flowed = "Content-Type: text/plain; format=flowed; delsp=yes\n"
    yield "flowed", mail("[PATCH] x", text.replace("\n ", "\n  "), flowed)
    part = f"--b\nContent-Type: text/x-patch; name=x.patch\n\n{DIFF}\n"
    kind = "Content-Type: multipart/mixed; boundary=b\n"
    yield "attached", mail("x", f"--b\n\nText\n{part}{part}--b--\n", kind)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in mails():
        (folder / name).write_text(text, encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
