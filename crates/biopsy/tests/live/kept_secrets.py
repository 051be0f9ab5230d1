# A service that holds secrets in memory (the first half of what the file has), writes others into the messages of exceptions, and ends with the
# last one when it is told to.
import logging, os, sys, threading, time

os.dup2(os.open(os.environ["SHOP_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
with open(os.environ["SHOP_FILE"]) as file:
    lines = file.read().split()
held, thrown = lines[: len(lines) // 2], lines[len(lines) // 2 :]
by_name = {f"password_{number}": secret for number, secret in enumerate(held)}
logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
ended = []
log = logging.getLogger("shop")


def log_in(number, secret):
    forms = [
        f"login failed: password={secret}",
        f"401 from https://api.example.com (Authorization: Bearer {secret})",
        f"cannot connect to postgres://app:{secret}@db.example.com/shop",
        f'refused: {{"api_key": "{secret}"}}',
    ]
    raise ValueError(forms[number % len(forms)])


def listen():
    sys.stdin.readline()
    ended.append(True)


def wait_with(secret):
    threading.Event().wait(600)


for number, secret in enumerate(thrown[:-1]):
    try:
        log_in(number, secret)
    except ValueError:
        log.exception("order %d", number)
threading.Thread(target=listen, daemon=True).start()
for secret in held[:8]:
    threading.Thread(target=wait_with, args=(secret,), daemon=True).start()
print(f"READY {os.getpid()}", flush=True)
while not ended:
    for _ in range(50000):
        pass
    time.sleep(0.01)
log_in(0, thrown[-1])
