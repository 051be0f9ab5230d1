//! Texts, as runtimes and programs write them.

use super::{LastWords, LastWordsKind, Writer, parse};

fn words(text: &str) -> Option<LastWords> {
    parse(&text.lines().map(str::to_owned).collect::<Vec<_>>())
}

fn said(text: &str) -> Option<(String, String, String)> {
    let words = words(text)?;
    let what = match words.kind {
        LastWordsKind::Exception => words.type_name,
        LastWordsKind::RustPanic => "a Rust panic".to_owned(),
        kind => format!("{kind:?}"),
    };
    Some((what, words.text, words.place.and_then(|place| place.shown).unwrap_or_default()))
}

fn is(text: &str, expected: (&str, &str, &str)) {
    let (name, message, place) = said(text).unwrap_or_else(|| panic!("{text}"));
    assert_eq!((name.as_str(), message.as_str(), place.as_str()), expected);
}

#[test]
fn tracebacks_of_each_language_have_a_type_a_text_and_a_place() {
    is(
        "3 orders\nTraceback (most recent call last):\n  File \"/srv/menu.py\", line 9, in <module>\n    main()\n  \
         File \"/srv/menu.py\", line 7, in price\n    return int(text)\n           ^^^^^^^^^\n  File \
         \"/usr/lib/python3.11/json/decoder.py\", line 355, in raw_decode\nValueError: no number: 'x'\n",
        ("ValueError", "no number: 'x'", "price (menu.py:7)"),
    );
    is(
        "Exception in thread \"main\" java.lang.IllegalStateException: closed\n\tat \
         java.base/java.util.ArrayList.get(ArrayList.java:427)\n\tat shop.Menu.price(Menu.java:7)\nCaused by: \
         shop.NoPrice: soup\n\tat shop.Prices.find(Prices.java:3)\n\t... 2 more\n",
        ("shop.NoPrice", "soup", "shop.Prices.find (Prices.java:3)"),
    );
    is(
        "/srv/menu.js:7\n  throw new NoPrice(`soup`);\n  ^\n\nNoPrice: soup\n    at price (/srv/menu.js:7:9)\n    at \
         async serve (/srv/menu.js:20:3)\n    at node:internal/main:1:1\n\nNode.js v20.20.2\n",
        ("NoPrice", "soup", "price (menu.js:7)"),
    );
    is(
        "node:events:495\n\nError [ERR_X]: two\nlines\n    at node:net:1:2\n    at /srv/menu.js:7:9 {\n  code: 'X'\n}\n\nNode.js v20\n",
        ("Error", "two", "menu.js:7"),
    );
    is(
        "thread 'main' panicked at src/menu.rs:7:9:\nno price\nnote: run with `RUST_BACKTRACE=1`\n",
        ("a Rust panic", "no price", "menu.rs:7"),
    );
    is(
        "thread 'main' panicked at 'no price', src/menu.rs:7:9\nstack backtrace:\n   0: rust_begin_unwind\n             at \
         /rustc/1/library/std/src/panicking.rs:1:5\n   1: menu::price\n             at ./src/menu.rs:7:9\n   2: main\n",
        ("a Rust panic", "no price", "menu::price (menu.rs:7)"),
    );
}

#[test]
fn what_was_written_long_before_is_not_why_it_ended() {
    let old = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: x\n";
    assert!(said(old).is_some());
    assert_eq!(said(&format!("{old}{}", "goes on\n".repeat(7))), None);
    for other in [
        "",
        "3 orders\n4 orders\n",
        "thread 'main' panicked at x",
        "    at nothing\n",
        "Exception in thread \"a\n",
    ] {
        assert_eq!(said(other), None, "{other}");
    }
}

#[test]
fn odd_tracebacks_give_what_they_have() {
    const TRACEBACK: &str = "Traceback (most recent call last):\n";
    let python = |rest: &str| said(&format!("{TRACEBACK}{rest}"));
    let owned =
        |name: &str, text: &str, place: &str| Some((name.to_owned(), text.to_owned(), place.to_owned()));
    assert_eq!(
        python("  File \"<string>\", line 1, in <module>\nKeyError: 'x'\n"),
        owned("KeyError", "'x'", "<module> (<string>:1)")
    );
    // Without a text, of a package, without frames, and with a line that is no number.
    assert_eq!(python("KeyboardInterrupt\n"), owned("KeyboardInterrupt", "", ""));
    assert_eq!(
        python("  File \"/a/b.py\", line x, in f\nshop.errors.NoPrice: 7: soup\n"),
        owned("shop.errors.NoPrice", "7: soup", "f (b.py)")
    );
    assert_eq!(
        python("  File \"/a/b.py\", line 3\n    f(\nSyntaxError: '(' was never closed\n"),
        owned("SyntaxError", "'(' was never closed", "b.py:3")
    );
    // Cut off before its end, and ended by something that is no name.
    assert_eq!(python("  File \"/a/b.py\", line 3, in f\n"), None);
    assert_eq!(python("no exception: at all\n"), None);
    // The last of two, the second one raised while the first was handled.
    let first = "  File \"/a/b.py\", line 3, in f\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n";
    let second = format!("{first}{TRACEBACK}  File \"/a/c.py\", line 4, in g\nValueError: 2\n");
    assert_eq!(python(&second), owned("ValueError", "2", "g (c.py:4)"));
    let long = python(&format!("ValueError: {}\n", "é".repeat(400)));
    assert_eq!(long.map(|(_, text, _)| text.chars().count()), Some(300));
}

#[test]
fn what_is_in_libraries_alone_is_told_by_the_library() {
    is(
        "Exception in thread \"pool-1-thread-2\" java.lang.NullPointerException\n\tat java.base/java.util.HashMap.get(Unknown \
         Source)\n\tSuppressed: java.io.IOException: closed\n\tat java.base/java.io.Reader.read(Reader.java:3)\n",
        ("java.lang.NullPointerException", "", "java.util.HashMap.get (Unknown Source)"),
    );
    is(
        "Uncaught TypeError: x is not a function\n    at Array.map (<anonymous>)\n    at new Menu (file:///srv/menu.mjs:3:4)\n",
        ("TypeError", "x is not a function", "Menu (menu.mjs:3)"),
    );
    is(
        "thread '<unnamed>' panicked at /rustc/1/library/core/src/option.rs:1:2:\ncalled `Option::unwrap()`\n",
        ("a Rust panic", "called `Option::unwrap()`", "option.rs:1"),
    );
    // Of two languages the one that wrote last.
    is(
        "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: x\nthread 'main' panicked at \
         src/lib.rs:7:9:\nlost\n",
        ("a Rust panic", "lost", "lib.rs:7"),
    );
}

/// Who wrote it, and what became of it.
fn by(text: &str, writer: Writer, became: &[&str]) {
    let found = words(text).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(
        (found.by, found.became.iter().map(String::as_str).collect::<Vec<_>>()),
        (writer, became.to_vec()),
        "{text}"
    );
}

#[test]
fn python_says_what_an_exception_was_raised_for() {
    let caused = "Traceback (most recent call last):\n  File \"/srv/a.py\", line 5, in wrap\n    price()\n  File \"/srv/a.py\", line 3, in \
                  price\n    raise NoPrice(\"soup\")\nNoPrice: soup\n\nThe above exception was the direct cause of the following \
                  exception:\n\nTraceback (most recent call last):\n  File \"/srv/a.py\", line 13, in <module>\n    wrap()\n  File \
                  \"/srv/a.py\", line 6, in wrap\n    raise ValueError(\"no menu\") from e\nValueError: no menu\n";
    is(caused, ("NoPrice", "soup", "price (a.py:3)"));
    by(caused, Writer::Runtime, &["passed on as ValueError: no menu, in wrap (a.py:6)"]);
    let handling = caused.replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    );
    is(&handling, ("ValueError", "no menu", "wrap (a.py:6)"));
    by(&handling, Writer::Runtime, &["raised while NoPrice: soup was handled, in price (a.py:3)"]);
    // Caught in a function, and written by it.
    let own = "Traceback (most recent call last):\n  File \"/srv/a.py\", line 18, in main\n    price()\n  File \"/srv/a.py\", line 3, in \
               price\n    raise NoPrice(\"soup\")\n__main__.NoPrice: soup\ncannot go on\n";
    is(own, ("__main__.NoPrice", "soup", "price (a.py:3)"));
    by(own, Writer::Program, &[]);
    let logged = "ERROR:shop:cannot serve\nTraceback (most recent call last):\n  File \"/srv/a.py\", line 18, in <module>\n    \
                  price()\nKeyError: 'x'\n";
    by(logged, Writer::Program, &[]);
    by(logged.split_once('\n').expect("two lines").1, Writer::Runtime, &[]);
    // A group: the exceptions in it stand behind bars.
    let group = "  + Exception Group Traceback (most recent call last):\n  |   File \"/srv/a.py\", line 32, in <module>\n  |     \
                 asyncio.run(main())\n  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  +-+---------------- 1 \
                 ----------------\n    | Traceback (most recent call last):\n    |   File \"/srv/a.py\", line 29, in w\n    |     \
                 price()\n    | NoPrice: soup\n    +------------------------------------\n";
    is(group, ("NoPrice", "soup", "w (a.py:29)"));
}

#[test]
fn java_texts_may_have_several_lines_and_several_causes() {
    let chain = "java.lang.IllegalStateException: no menu\nof today\n\tat A.wrap(A.java:4)\n\tat A.main(A.java:10)\nCaused by: \
                 shop.Closed: twice\nover\n\tat A.open(A.java:3)\n\t... 2 more\nCaused by: A$NoPrice: soup\n\tat \
                 java.base/java.util.Map.of(Map.java:1)\n\t... 3 more\n";
    // What the last one has in common with the others is the program's.
    is(chain, ("A$NoPrice", "soup", "A.open (A.java:3)"));
    let became = [
        "passed on as shop.Closed: twice, in A.open (A.java:3)",
        "passed on as java.lang.IllegalStateException: no menu, in A.wrap (A.java:4)",
    ];
    by(chain, Writer::Program, &became);
    by(&format!("Exception in thread \"pool-1 thread\" {chain}"), Writer::Runtime, &became);
    // As a logger writes it, with the jar of each call.
    let logged = "Nov 29, 2026 4:30:02 AM A main\nSEVERE: cannot serve\nA$NoPrice: soup\n\tat A.price(A.java:3) ~[shop.jar:1.2]\n\tat \
                  A.main(A.java:13)\n\ngood bye\n";
    is(logged, ("A$NoPrice", "soup", "A.price (A.java:3)"));
    by(logged, Writer::Program, &[]);
    is(
        "04:00 ERROR [main] cannot serve: java.io.IOException: closed\n\tat A.price(A.java:3)\n",
        ("java.io.IOException", "closed", "A.price (A.java:3)"),
    );
}

#[test]
fn dotnet_exceptions_are_told_from_inside() {
    let chain = "System.InvalidOperationException: no menu\n ---> System.Collections.Generic.KeyNotFoundException: The given key 'soup' was \
                 not present in the dictionary.\n   at System.Collections.Generic.Dictionary`2.get_Item(TKey key)\n   at \
                 Shop.Prices.Find(String name) in /srv/Prices.cs:line 3\n   --- End of inner exception stack trace ---\n   at \
                 Shop.Menu.Price(String name) in /srv/Menu.cs:line 7\n--- End of stack trace from previous location ---\n   at \
                 Shop.Program.Main(String[] args)\n";
    let root = (
        "System.Collections.Generic.KeyNotFoundException",
        "The given key 'soup' was not present in the dictionary.",
        "Shop.Prices.Find (Prices.cs:3)",
    );
    let became = ["passed on as System.InvalidOperationException: no menu, in Shop.Menu.Price (Menu.cs:7)"];
    is(chain, root);
    by(chain, Writer::Program, &became);
    by(&format!("Unhandled exception. {chain}"), Writer::Runtime, &became);
    by(&format!("fail: cannot serve: {chain}good bye\n"), Writer::Program, &became);
    // Without positions, in a closure, behind a text of several lines.
    is(
        "Unhandled exception. Shop.BadLine: two\nlines\n   at Shop.Menu.<>c.<Price>b__0_0(String x)\n   at Shop.Program.Main()\n",
        ("Shop.BadLine", "two", "Shop.Menu.<>c.<Price>b__0_0"),
    );
}

#[test]
fn go_says_what_a_goroutine_panicked_for() {
    let panic = "panic: runtime error: index out of range [5] with length 0\n\ngoroutine 6 [running]:\nmain.(*shop).price(0x0?, \
                 {0xc000, 0x1})\n\t/srv/a.go:4 +0x18\ncreated by main.main\n\t/srv/a.go:13 +0x1ca\nexit status 2\n";
    is(
        panic,
        ("GoPanic", "runtime error: index out of range [5] with length 0", "main.(*shop).price (a.go:4)"),
    );
    is(
        "panic: first [recovered]\n\tpanic: again: first\n\ngoroutine 1 [running]:\nmain.main.func1()\n\t/srv/a.go:9 \
         +0x65\npanic({0x48b1e0, 0x4ba4f0})\n\t/usr/lib/go-1.19/src/runtime/panic.go:884 +0x212\nmain.serve(...)\n\t/srv/a.go:19\n",
        ("GoPanic", "first", "main.serve (a.go:19)"),
    );
    let others: String =
        (2..300).map(|at| format!("goroutine {at} [select]:\nmain.tick()\n\t/srv/a.go:9 +0x1\n\n")).collect();
    is(
        &format!(
            "fatal error: concurrent map writes\n\ngoroutine 18 [running]:\nmain.count(...)\n\t/srv/a.go:11 +0x2e\n\n{others}"
        ),
        ("GoFatal", "concurrent map writes", "main.count (a.go:11)"),
    );
    assert_eq!(words("panic: at the disco\nas every day\n"), None, "no goroutine");
}

#[test]
fn node_says_what_is_no_error_too() {
    let end = "\nNode.js v20.20.2\n";
    let value = "/srv/a.js:7\n  throw \"abc\";\n  ^\nabc\n(Use `node --trace-uncaught ...` to show where the exception was thrown)\n";
    is(&format!("{value}{end}"), ("Value", "abc", "a.js:7"));
    let rejected = |lines: &str| {
        format!(
            "node:internal/process/promises:389\n      new UnhandledPromiseRejection(reason);\n      ^\n\n{lines}This error originated either \
             by throwing inside of an async function without a catch block, or by rejecting a promise which was not handled with .catch(). The \
             promise rejected with the reason \"no \"seat\"\"."
        )
    };
    is(
        &format!(
            "{}\n    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7)\n    at processPromiseRejections \
             (node:internal/process/promises:470:17) {{\n  code: 'ERR_UNHANDLED_REJECTION'\n}}\n{end}",
            rejected("UnhandledPromiseRejection: ")
        ),
        ("Rejection", "no \"seat\"", ""),
    );
    is(
        &format!(
            "{}] {{\n  code: 'ERR_UNHANDLED_REJECTION'\n}}\n{end}",
            rejected("[UnhandledPromiseRejection: ")
        ),
        ("Rejection", "no \"seat\"", ""),
    );
    // Behind it the program went on: it is no end.
    assert_eq!(words(&format!("{value}{end}{}", "goes on\n".repeat(7))), None);
}

#[test]
fn node_shows_causes_and_events() {
    let end = "\nNode.js v20.20.2\n";
    let caused = "/srv/a.js:3\n  throw new Error('no menu')\n  ^\n\nError: no menu\n    at wrap (/srv/a.js:3:53)\n    ... 5 lines matching \
                  cause stack trace ...\n    at node:internal/main/run_main_module:28:49 {\n  [cause]: NoPrice [Error]: soup\n      at price \
                  (/srv/a.js:2:26)\n      at async Promise.all (index 0)\n      at node:internal/main/run_main_module:28:49\n}\n";
    is(&format!("{caused}{end}"), ("NoPrice", "soup", "price (a.js:2)"));
    by(&format!("{caused}{end}"), Writer::Runtime, &["passed on as Error: no menu, in wrap (a.js:3)"]);
    by(caused, Writer::Program, &["passed on as Error: no menu, in wrap (a.js:3)"]);
    let emitted = "node:events:502\n      throw er; // Unhandled 'error' event\n      ^\n\nError: listen EADDRINUSE: address already in \
                   use\n    at Server.setupListenHandle [as _listen2] (node:net:1908:16)\n    at node:net:1951:10\nEmitted 'error' event on \
                   Server instance at:\n    at emitErrorNT (node:net:1944:8)\n    at Timeout.tick [as _onTimeout] (/srv/a.js:14:94) {\n  code: \
                   'EADDRINUSE',\n  errno: -98,\n  syscall: 'listen',\n  address: '::',\n  port: 40215\n}\n";
    is(
        &format!("{emitted}{end}"),
        ("Error", "listen EADDRINUSE: address already in use", "Timeout.tick (a.js:14)"),
    );
    by(
        &format!("{emitted}{end}"),
        Writer::Runtime,
        &["emitted as an `error` event that nobody listens to, in Timeout.tick (a.js:14)"],
    );
    // Written by the program, with words before it and properties behind.
    let own = "cannot serve: NoPrice [Error]: soup\n    at price (/srv/a.js:2:26)\n    at node:internal/main:28:49 {\n  order: {\n    a: 1,\n    \
               b: 2\n  },\n  code: 7,\n  c: 1,\n  d: 2\n}\ngood bye\n";
    is(own, ("NoPrice", "soup", "price (a.js:2)"));
    by(own, Writer::Program, &[]);
    is(&own.replace(" [Error]", ""), ("NoPrice", "soup", "price (a.js:2)"));
    is(&own.replace("cannot serve: ", "fatal "), ("NoPrice", "soup", "price (a.js:2)"));
    is(
        &own.replace("cannot serve: NoPrice [Error]", "ERROR fatal NoPrice"),
        ("NoPrice", "soup", "price (a.js:2)"),
    );
    // Where Node aborts, its calls have no `at`.
    let aborted =
        "Uncaught Error: soup\n\nFROM\nprice (/srv/a.js:2:20)\nnode:internal/main/run_main_module:28:49\n";
    is(aborted, ("Error", "soup", "price (a.js:2)"));
    // A library alone threw it: Node shows a line of the program.
    is(
        &format!(
            "/srv/conf.json:3\n{{ x\n  ^\n\nSyntaxError: Unexpected token\n    at new Script (node:vm:117:7)\n{end}"
        ),
        ("SyntaxError", "Unexpected token", "conf.json:3"),
    );
}

#[test]
fn deep_stacks_say_what_calls_itself() {
    let frames = |count: usize| "\tat A.deep(A.java:5)\n".repeat(count);
    let text = format!("Exception in thread \"main\" java.lang.StackOverflowError\n{}", frames(1024));
    let found = words(&text).expect("an exception");
    assert_eq!((found.calls.len(), found.recurses()), (40, Some(("A.deep (A.java:5)", 40))));
    let shallow = format!("Exception in thread \"main\" a.B: x\n\tat A.price(A.java:1)\n{}", frames(2));
    assert_eq!(words(&shallow).expect("an exception").recurses(), None);
    // Where the beginning is cut off it has no name, and nothing is said.
    assert_eq!(words(&frames(4000)), None);
}

#[test]
fn no_text_takes_long() {
    // 256 KiB of what begins like an exception everywhere.
    for line in [
        "Traceback (most recent call last):",
        "Error: x",
        "    at f (/a.js:1:1)",
        "panic: x",
        "Caused by: a.B: x",
        " ---> a.B: x",
        "^",
    ] {
        let lines = vec![line.to_owned(); (256 << 10) / (line.len() + 1)];
        let _ = parse(&lines);
    }
    let _ = parse(&[" Error".repeat(40_000)]);
}
