//! How the last characters of a credential follow from those before.

use serde::Deserialize;

/// A checksum at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Checksum {
    /// GitHub and npm: CRC32 of what is between the prefix and the last six characters, in base62.
    Base62Crc32,
    /// age and nostr: the six characters of bech32 (BIP 173).
    Bech32,
}

const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BECH32: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const LAST: usize = 6;

impl Checksum {
    /// The value with its last characters as they must be.
    pub(super) fn finish(self, value: &str) -> String {
        let body = &value[..value.len() - LAST];
        match self {
            Self::Base62Crc32 => {
                let entropy = body.rsplit('_').next().unwrap_or(body);
                format!("{body}{}", base62(crc32(entropy.as_bytes())))
            }
            Self::Bech32 => {
                let upper = value.starts_with(|first: char| first.is_ascii_uppercase());
                let finished = format!("{}{}", body.to_lowercase(), bech32(&body.to_lowercase()));
                if upper { finished.to_uppercase() } else { finished }
            }
        }
    }

    /// Whether the last characters of a value are as they must be.
    #[cfg(test)]
    pub(super) fn holds(self, value: &str) -> bool {
        value.len() > LAST && self.finish(value) == value
    }
}

/// CRC-32 as in zip.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 * (sum & 1)))
    })
}

fn base62(mut number: u32) -> String {
    let mut digits = [b'0'; LAST];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(number % 62) as usize];
        number /= 62;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

fn bech32(body: &str) -> String {
    let (name, data) = body.rsplit_once('1').unwrap_or(("", body));
    let high = name.bytes().map(|byte| byte >> 5);
    let low = name.bytes().map(|byte| byte & 31);
    let data = data.bytes().map(|byte| BECH32.iter().position(|letter| *letter == byte).unwrap_or(0) as u8);
    let sum = polymod(high.chain([0]).chain(low).chain(data).chain([0; LAST])) ^ 1;
    (0..LAST).map(|index| BECH32[((sum >> (5 * (LAST - 1 - index))) & 31) as usize] as char).collect()
}

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    values.fold(1, |sum, value| {
        let shifted = ((sum & 0x01ff_ffff) << 5) ^ u32::from(value);
        let taps = GENERATOR.iter().enumerate().filter(|(bit, _)| (sum >> (25 + bit)) & 1 == 1);
        taps.fold(shifted, |sum, (_, tap)| sum ^ tap)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_issuers() {
        // The check value of CRC-32, and the two examples of BIP 173 and of age's documentation.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert!(Checksum::Bech32.holds("A12UEL5L"));
        assert!(Checksum::Bech32.holds("split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w"));
        assert!(!Checksum::Bech32.holds("split1checkupstagehandshakeupstreamerranterredcaperred2y9e3x"));
        // 62^5 is the first number of six digits.
        assert_eq!(base62(916_132_832), "100000");
        let token = Checksum::Base62Crc32.finish("ghp_123456789012345678901234567890------");
        assert!(
            Checksum::Base62Crc32.holds(&token) && !Checksum::Base62Crc32.holds(&token.replace('9', "8"))
        );
    }
}
