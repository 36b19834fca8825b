##Command: /usr/bin/python3 {source}
##Shows: Debian's python3 (not position-independent): threads, a subprocess, files, decimals, JSON, compression
import decimal
import json
import os
import subprocess
import tempfile
import threading
import zlib

total = []


def work(n):
    total.append(sum(range(n)))


threads = [threading.Thread(target=work, args=(n * 1000,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
decimal.getcontext().prec = 60
print(sorted(total), decimal.Decimal(2).sqrt())
print(subprocess.run(["/bin/echo", "from a child"], capture_output=True, text=True).stdout.strip())
with tempfile.NamedTemporaryFile("w+") as file:
    json.dump({"a": [1, 2.5, None], "b": "ü"}, file)
    file.seek(0)
    print(json.load(file))
data = os.urandom(1000) * 200
assert zlib.decompress(zlib.compress(data)) == data
print(len({str(i): i for i in range(100000)}))
