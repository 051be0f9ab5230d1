//! The second factor: six digits of an authenticator app that change each half minute (RFC 6238).

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use totp_rs::{Algorithm, TOTP};

use crate::error::LabError;
use crate::place::Lab;

/// Seconds that a code is shown.
const STEP: u64 = 30;
/// Steps that a clock may be wrong, either way.
const WRONG_BY: u64 = 1;

/// The generator of a person's codes.
#[derive(Debug)]
pub struct SecondFactor(TOTP);

impl SecondFactor {
    /// Of a person, by what the database has of it and the lab's key.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn of(lab: &Lab, salt: &[u8], person: &str) -> Result<Self, LabError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&lab.second_factor_key()?)
            .map_err(|_| LabError::Damaged { what: "the key of second factors" })?;
        mac.update(salt);
        mac.update(person.as_bytes());
        Self::new(&mac.finalize().into_bytes()[..20], person)
    }

    /// Of this secret of 16 bytes or more.
    fn new(secret: &[u8], person: &str) -> Result<Self, LabError> {
        let issuer = Some("biopsy lab".to_owned());
        TOTP::new(Algorithm::SHA1, 6, 0, STEP, secret.to_vec(), issuer, person.to_owned())
            .map(Self)
            .map_err(|_| LabError::Damaged { what: "the second factor of a person" })
    }

    /// The step whose code this is, near `now` (seconds since 1970) and after `used`: each is good once.
    #[must_use]
    pub fn step_of(&self, code: &str, now: i64, used: i64) -> Option<i64> {
        let code: String = code.chars().filter(|one| !one.is_whitespace()).collect();
        let now = u64::try_from(now).ok()? / STEP;
        let mut found = None;
        for step in now.saturating_sub(WRONG_BY)..=now + WRONG_BY {
            let wanted = self.0.generate(step * STEP);
            let differ = wanted.bytes().zip(code.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
            let step = i64::try_from(step).ok()?;
            if wanted.len() == code.len() && differ == 0 && step > used {
                found = Some(step);
            }
        }
        found
    }

    /// The code of this moment.
    #[must_use]
    pub fn code(&self, now: i64) -> String {
        self.0.generate(u64::try_from(now).unwrap_or_default())
    }

    /// To be typed: letters and digits, in fours.
    #[must_use]
    pub fn typed(&self) -> String {
        let secret = self.0.get_secret_base32();
        let fours: Vec<&str> =
            (0..secret.len()).step_by(4).map(|at| &secret[at..secret.len().min(at + 4)]).collect();
        fours.join(" ")
    }

    /// To be scanned: a QR code as SVG.
    #[must_use]
    pub fn qr_code(&self) -> Option<String> {
        let code = qrcode::QrCode::new(self.0.get_url()).ok()?;
        Some(code.render::<qrcode::render::svg::Color<'_>>().min_dimensions(220, 220).build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238, appendix B.
    fn rfc() -> SecondFactor {
        SecondFactor::new(b"12345678901234567890", "alice").unwrap()
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        for (time, code) in [(59, "287082"), (1_111_111_109, "081804"), (20_000_000_000, "353130")] {
            assert_eq!(rfc().code(time), code);
            assert_eq!(rfc().step_of(code, time, 0), Some(time / 30));
        }
    }

    #[test]
    fn a_code_is_good_once_and_for_a_minute() {
        let code = rfc().code(3000);
        assert_eq!(rfc().step_of(&code, 3000, 99), Some(100));
        assert_eq!(rfc().step_of(&code, 3029 + 30, 99), Some(100), "a clock that is late");
        assert_eq!(rfc().step_of(&code, 3000 - 1, 99), Some(100), "a clock that is early");
        assert_eq!(rfc().step_of(&code, 3000 + 60, 99), None, "it is over");
        assert_eq!(rfc().step_of(&code, 3000, 100), None, "it was used");
        let spaced = format!("{} {}", &code[..3], &code[3..]);
        assert_eq!(rfc().step_of(&spaced, 3000, 99), Some(100));
        for wrong in ["", "000000", "1234567", "abcdef"] {
            assert_eq!(rfc().step_of(wrong, 3000, 0), None, "{wrong}");
        }
    }

    #[test]
    fn it_can_be_scanned_or_typed() {
        let picture = rfc().qr_code().unwrap();
        assert!(picture.contains("<svg") && !picture.contains("<script"));
        assert_eq!(rfc().typed().replace(' ', "").len(), 32);
        assert!(SecondFactor::new(b"short", "alice").is_err(), "shorter than the standard allows");
    }
}
