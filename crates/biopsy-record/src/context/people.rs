//! What this machine and its people are called: for whoever wants none of it in a recording.

/// Ids of accounts that are people's (`UID_MIN` of login.defs, and below those that systemd makes up).
const PEOPLE: std::ops::Range<u32> = 1000..60_000;

/// The name of this machine, with its domain and without.
#[must_use]
pub fn machine() -> Vec<String> {
    let name = biopsy_files::read_kernels("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let name = name.trim();
    let short = name.split('.').next().unwrap_or_default();
    [name, short].into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Names of accounts of people.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "root's own file, also where the root lies on a network")]
pub fn people() -> Vec<String> {
    people_of(&std::fs::read_to_string("/etc/passwd").unwrap_or_default())
}

fn people_of(passwd: &str) -> Vec<String> {
    let person = |line: &str| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        PEOPLE.contains(&id.parse().ok()?).then(|| name.to_owned())
    };
    passwd.lines().filter_map(person).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_of_services_are_no_people() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nnginx:x:101:101::/:/bin/false\nbob:x:1000:1000:Bob:/home/bob:/bin/sh\n\
                      nobody:x:65534:65534::/:/bin/false\nbroken\n";
        assert_eq!(people_of(passwd), ["bob"]);
    }
}
