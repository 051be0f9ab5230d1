//! Reading JSON that may be anything: a value of another kind is none, of a long list the beginning is kept.
//!
//! Reports are written by a process that has read a hostile file. What is wrong in one place must not hide the rest, and lists have ends.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What may be made of one value of JSON; `None`: it is of another kind.
pub(crate) trait Scalar: Sized {
    fn of_text(_: &str) -> Option<Self> {
        None
    }
    fn of_whole(_: i128) -> Option<Self> {
        None
    }
    fn of_number(_: f64) -> Option<Self> {
        None
    }
    fn of_truth(_: bool) -> Option<Self> {
        None
    }
}

impl Scalar for String {
    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// Beyond 64 bits with a sign it is the largest or least of them.
impl Scalar for i64 {
    fn of_whole(number: i128) -> Option<Self> {
        let clamped = number.clamp(i128::from(Self::MIN), i128::from(Self::MAX));
        Self::try_from(clamped).ok()
    }
}

impl Scalar for f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number of JSON has no more")]
    fn of_whole(number: i128) -> Option<Self> {
        Some(number as Self)
    }

    fn of_number(number: f64) -> Option<Self> {
        number.is_finite().then_some(number)
    }
}

impl Scalar for bool {
    fn of_truth(truth: bool) -> Option<Self> {
        Some(truth)
    }
}

/// A value, if it is of that kind.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Maybe<T>(pub(crate) Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl Maybe<String> {
    /// The text; none is empty.
    pub(crate) fn text(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'de, T: Scalar> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One<T>(PhantomData<T>);
        impl<'de, T: Scalar> Visitor<'de> for One<T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(T::of_text(text))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(T::of_whole(number.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(T::of_whole(number.into()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(T::of_number(number))
            }

            fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
                Ok(T::of_truth(truth))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(None)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(None)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(None)
            }
        }
        deserializer.deserialize_any(One(PhantomData)).map(Self)
    }
}

/// The first elements of a list.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct First<T, const MOST: usize>(pub(crate) Vec<T>);

impl<T, const MOST: usize> Default for First<T, MOST> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for First<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for List<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Vec::new())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut kept = Vec::new();
                while kept.len() < MOST {
                    match list.next_element()? {
                        Some(element) => kept.push(element),
                        None => return Ok(kept),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(kept)
            }
        }
        deserializer.deserialize_any(List::<T, MOST>(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::{First, Maybe};

    fn read<T: for<'a> serde::Deserialize<'a>>(json: &str) -> T {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_value_of_another_kind_is_none() {
        for json in ["null", "[1, [2]]", "{\"a\": {}}", "true", "1.5"] {
            assert_eq!(read::<Maybe<String>>(json), Maybe(None), "{json}");
        }
        assert_eq!(read::<Maybe<String>>("\"a\""), Maybe(Some("a".to_owned())));
        assert_eq!(read::<Maybe<f64>>("\"a\""), Maybe(None));
        assert_eq!(read::<Maybe<f64>>("null"), Maybe(None));
        assert_eq!(read::<Maybe<f64>>("3"), Maybe(Some(3.0)));
        assert_eq!(read::<Maybe<i64>>("18446744073709551615"), Maybe(Some(i64::MAX)));
        assert_eq!(read::<Maybe<i64>>("-3"), Maybe(Some(-3)));
        assert_eq!(read::<Maybe<i64>>("1.5"), Maybe(None));
        assert_eq!(read::<Maybe<bool>>("1"), Maybe(None));
    }

    #[test]
    fn of_a_long_list_the_beginning_is_kept() {
        assert_eq!(read::<First<u8, 2>>("[1, 2, 3, 4]").0, [1, 2]);
        assert_eq!(read::<First<u8, 2>>("[1]").0, [1]);
        assert!(read::<First<u8, 2>>("null").0.is_empty());
    }
}
