//! Command lines: arguments, and the program that an interpreter or runtime was told to run.

use biopsy_model::process::RuntimeKind;

/// Most bytes read of a command line; the kernel allows more than 2 MiB.
pub(crate) const LIMIT: usize = 128 * 1024;

/// Splits `/proc/PID/cmdline`. Programs that write their own title leave one text without NUL, padded with NULs.
pub(crate) fn arguments(cmdline: &[u8]) -> Vec<String> {
    let end = cmdline.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let Some(text) = cmdline.get(..end).filter(|text| !text.is_empty()) else { return Vec::new() };
    text.split(|&byte| byte == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

/// The last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// The kind of runtime that a program's file name stands for; `None`: not an interpreter known by name.
pub(crate) fn kind_by_name(name: &str) -> Option<RuntimeKind> {
    // `python3.11` and `php-fpm8.2` carry their version in the name.
    let stem = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    Some(match stem {
        "dotnet" => RuntimeKind::DotNet,
        "java" => RuntimeKind::Jvm,
        "node" | "nodejs" => RuntimeKind::Node,
        "python" => RuntimeKind::Python,
        "ruby" | "perl" | "php" | "php-fpm" | "php-cgi" | "lua" | "luajit" | "Rscript" | "sh" | "bash"
        | "dash" | "zsh" | "ash" | "ksh" | "fish" | "bun" | "deno" | "erl" | "beam.smp" | "pwsh" => {
            RuntimeKind::OtherInterpreter
        }
        _ => return None,
    })
}

/// What a runtime was told to run: script, module, jar, main class, .NET entry assembly.
pub(crate) fn entry(kind: RuntimeKind, arguments: &[String]) -> Option<String> {
    let rest = arguments.get(1..)?;
    match kind {
        RuntimeKind::DotNet => dotnet_entry(rest),
        RuntimeKind::Jvm => jvm_entry(rest),
        RuntimeKind::Node => first_operand(rest, NODE_VALUES, &["-e", "--eval", "-p", "--print", "-i"], None),
        RuntimeKind::Python => {
            first_operand(rest, &["-W", "-X", "--check-hash-based-pycs"], &["-c"], Some("-m"))
        }
        RuntimeKind::OtherInterpreter => first_operand(rest, &["-o", "-I", "-r"], &["-c", "-e"], None)
            // A descriptor (`bash /dev/fd/63`) is no name.
            .filter(|script| !script.bytes().all(|byte| byte.is_ascii_digit())),
        RuntimeKind::Go | RuntimeKind::Native | RuntimeKind::Unknown => None,
    }
}

/// Options of node that take the next argument as their value.
const NODE_VALUES: &[&str] = &[
    "-r",
    "--require",
    "--import",
    "--loader",
    "--experimental-loader",
    "-C",
    "--conditions",
    "--env-file",
    "--title",
];

/// Options of the dotnet host that take the next argument as their value.
const DOTNET_VALUES: &[&str] = &[
    "--additionalprobingpath",
    "--additional-deps",
    "--depsfile",
    "--runtimeconfig",
    "--fx-version",
    "--roll-forward",
    "--roll-forward-on-no-candidate-fx",
];

/// Options of java that take the next argument as their value.
const JVM_VALUES: &[&str] = &[
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--limit-modules",
    "--add-opens",
    "--add-exports",
    "--add-reads",
    "--patch-module",
    "--enable-native-access",
    "--source",
];

/// A command line for people: the program without its folders, what it was told to run, and the rest. `name` is
/// the name of the process, used where it runs no runtime that is known.
#[must_use]
pub fn short_command(name: &str, exe: &str, entry: Option<&str>, arguments: &[String]) -> (String, String) {
    if arguments.is_empty() {
        return (format!("[{name}]"), String::new());
    }
    // `nginx: master process /usr/sbin/nginx`: a title that the program wrote over its arguments.
    if let Some(title) = arguments.first().filter(|first| !first.starts_with('/') && first.contains(": ")) {
        return (title.clone(), String::new());
    }
    // Runtimes rename their main thread (`MainThread` of Node), which is then the name of the process.
    let program = base_name(exe);
    let is_runtime = kind_by_name(program).is_some();
    let name = if is_runtime { program } else { name };
    let arguments = arguments.get(1..).unwrap_or_default();
    let after_entry = entry
        .filter(|_| is_runtime)
        .and_then(|entry| Some((entry, arguments.iter().position(|text| base_name(text) == entry)?)));
    match after_entry {
        Some((entry, at)) => {
            let rest = arguments.get(at + 1..).unwrap_or_default();
            (format!("{name} {entry}"), rest.join(" "))
        }
        None => (name.to_owned(), arguments.join(" ")),
    }
}

fn dotnet_entry(rest: &[String]) -> Option<String> {
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        if DOTNET_VALUES.contains(&argument.as_str()) {
            rest.next();
        } else if argument != "exec" && !argument.starts_with('-') {
            // Anything but an assembly is a command of the SDK, whose assembly is not the user's.
            let name = base_name(argument);
            let is_assembly = name.len() > 4
                && name
                    .get(name.len() - 4..)
                    .is_some_and(|end| end.eq_ignore_ascii_case(".dll") || end.eq_ignore_ascii_case(".exe"));
            return is_assembly.then(|| name.to_owned());
        }
    }
    None
}

fn jvm_entry(rest: &[String]) -> Option<String> {
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-jar" => return rest.next().map(|jar| base_name(jar).to_owned()),
            "-m" | "--module" => return rest.next().cloned(),
            option if JVM_VALUES.contains(&option) => drop(rest.next()),
            option if option.starts_with("--module=") => return option.get(9..).map(str::to_owned),
            option if option.starts_with('-') || option.starts_with('@') => {}
            // The launcher also runs single source files.
            operand => return Some(base_name(operand).to_owned()),
        }
    }
    None
}

/// The first argument that is neither an option nor an option's value. `inline` options carry code: no file then.
fn first_operand(rest: &[String], values: &[&str], inline: &[&str], module: Option<&str>) -> Option<String> {
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        let argument = argument.as_str();
        if argument == "--" {
            return rest.next().map(|script| base_name(script).to_owned());
        } else if Some(argument) == module {
            return rest.next().cloned();
        } else if inline.contains(&argument) {
            return None;
        } else if values.contains(&argument) {
            rest.next();
        } else if !argument.starts_with('-') && !argument.is_empty() {
            return Some(base_name(argument).to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        let arguments: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let kind = kind_by_name(base_name(&arguments[0])).unwrap();
        assert_eq!(entry(kind, &arguments).as_deref(), expected, "{command}");
    }

    #[test]
    fn entries() {
        check("dotnet /opt/x/Octopus.Server.dll run --instance=a", Some("Octopus.Server.dll"));
        check(
            "/usr/bin/dotnet exec --runtimeconfig a.json --depsfile b.json /x/server.dll",
            Some("server.dll"),
        );
        check("dotnet build /x/y.dll", None);
        check("dotnet --info", None);
        check("java -Xmx1g -cp /a:/b -Dx=y com.example.Main --port 1", Some("com.example.Main"));
        check("/usr/bin/java -jar /opt/app/app.jar -x", Some("app.jar"));
        check(
            "java --add-opens java.base/java.lang=ALL-UNNAMED -p /mods -m app/com.Main",
            Some("app/com.Main"),
        );
        check("java @args --module=app/com.Main", Some("app/com.Main"));
        check("node --max-old-space-size=100 -r ./hook.js /srv/server.js --port 1", Some("server.js"));
        check("node -e code", None);
        check("python3.11 -u /srv/app.py x", Some("app.py"));
        check("python3 -W ignore -m http.server 80", Some("http.server"));
        check("python -c pass", None);
        check("bash /etc/init.d/x start", Some("x"));
        check("sh -c true", None);
        check("node", None);
    }

    #[test]
    fn short_commands() {
        let short = |name, exe, entry, line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let (first, rest) = short_command(name, exe, entry, &arguments);
            format!("{first}|{rest}")
        };
        assert_eq!(
            short("dotnet", "/x/dotnet", Some("a.dll"), "/x/dotnet /y/a.dll -p 1"),
            "dotnet a.dll|-p 1"
        );
        assert_eq!(short("MainThread", "/x/node", Some("a.js"), "node --x /y/a.js"), "node a.js|");
        assert_eq!(short("mariadbd", "/x/mariadbd", None, "/x/mariadbd --y"), "mariadbd|--y");
        let title = ["postgres: checkpointer ".to_owned()];
        assert_eq!(short_command("postgres", "/x/postgres", None, &title).0, title[0]);
        assert_eq!(short("kworker/0:1", "", None, ""), "[kworker/0:1]|");
    }

    #[test]
    fn splitting() {
        assert_eq!(arguments(b"a\0b c\0\0\0"), ["a", "b c"]);
        assert_eq!(arguments(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(arguments(b"nginx: master process"), ["nginx: master process"]);
        assert!(arguments(b"").is_empty());
        assert!(arguments(b"\0\0").is_empty());
        assert_eq!(arguments(b"\xff\0"), ["\u{fffd}"]);
    }

    #[test]
    fn base_names() {
        assert_eq!(base_name("/usr/bin/x"), "x");
        assert_eq!(base_name("x"), "x");
        assert_eq!(base_name("x/"), "x");
        assert_eq!(base_name(""), "");
    }
}
