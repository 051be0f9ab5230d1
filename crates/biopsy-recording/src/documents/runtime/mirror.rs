//! Types of the model and their forms on disk, field by field, without serialisation in the model.

use biopsy_model::runtime_trace::{Kept, RuntimeStack};
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::documents::at_most;

/// A value of the model that has a form on disk.
pub(crate) trait Mirror: Sized {
    /// That form. What is absent in a member has its default.
    type Json: Serialize + DeserializeOwned + Default + std::fmt::Debug;

    fn into_json(self) -> Self::Json;
    fn from_json(json: Self::Json) -> Self;
}

/// The form of a struct: its fields, each by its own form.
macro_rules! mirror {
    ($type:ty as $json:ident { $($field:ident: $kind:ty),+ $(,)? }) => {
        #[derive(serde::Serialize, serde::Deserialize, Default, Debug)]
        #[serde(default)]
        pub(crate) struct $json {
            $($field: <$kind as $crate::documents::runtime::mirror::Mirror>::Json,)+
        }

        impl $crate::documents::runtime::mirror::Mirror for $type {
            type Json = $json;

            fn into_json(self) -> $json {
                $json { $($field: $crate::documents::runtime::mirror::Mirror::into_json(self.$field),)+ }
            }

            fn from_json(json: $json) -> Self {
                Self { $($field: $crate::documents::runtime::mirror::Mirror::from_json(json.$field),)+ }
            }
        }
    };
}
pub(super) use mirror;

macro_rules! same {
    ($($type:ty),+) => {$(
        impl Mirror for $type {
            type Json = Self;

            fn into_json(self) -> Self {
                self
            }

            fn from_json(json: Self) -> Self {
                json
            }
        }
    )+};
}
same!(bool, u8, u16, u32, u64, f64, String);

macro_rules! number {
    ($($type:ident($inner:ty)),+) => {$(
        impl Mirror for $type {
            type Json = $inner;

            fn into_json(self) -> $inner {
                self.0
            }

            fn from_json(json: $inner) -> Self {
                Self(json)
            }
        }
    )+};
}
number!(MonoNanos(u64), Nanos(u64), Pid(u32), Tid(u32), RuntimeStack(u32));

impl<T: Mirror> Mirror for Option<T> {
    type Json = Option<T::Json>;

    fn into_json(self) -> Self::Json {
        self.map(T::into_json)
    }

    fn from_json(json: Self::Json) -> Self {
        json.map(T::from_json)
    }
}

/// A list of bounded length.
#[derive(Serialize, Deserialize, Debug)]
#[serde(transparent, bound = "T: Serialize + serde::de::DeserializeOwned")]
pub(crate) struct Bounded<T>(#[serde(deserialize_with = "at_most")] Vec<T>);

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Mirror> Mirror for Vec<T> {
    type Json = Bounded<T::Json>;

    fn into_json(self) -> Self::Json {
        Bounded(self.into_iter().map(T::into_json).collect())
    }

    fn from_json(json: Self::Json) -> Self {
        json.0.into_iter().map(T::from_json).collect()
    }
}

impl<A: Mirror, B: Mirror> Mirror for (A, B) {
    type Json = (A::Json, B::Json);

    fn into_json(self) -> Self::Json {
        (self.0.into_json(), self.1.into_json())
    }

    fn from_json(json: Self::Json) -> Self {
        (A::from_json(json.0), B::from_json(json.1))
    }
}

/// What [`Kept`] looks like.
#[derive(Serialize, Deserialize, Debug)]
#[serde(default, bound = "T: Serialize + serde::de::DeserializeOwned")]
pub(crate) struct KeptJson<T> {
    items: Bounded<T>,
    total: u64,
}

impl<T> Default for KeptJson<T> {
    fn default() -> Self {
        Self { items: Bounded::default(), total: 0 }
    }
}

impl<T: Mirror> Mirror for Kept<T> {
    type Json = KeptJson<T::Json>;

    fn into_json(self) -> Self::Json {
        KeptJson { items: self.items.into_json(), total: self.total }
    }

    fn from_json(json: Self::Json) -> Self {
        Self { items: Vec::from_json(json.items), total: json.total }
    }
}

/// An array is a list; what is too long or too short is cut or filled with zeros.
impl<const N: usize> Mirror for [u32; N] {
    type Json = Bounded<u32>;

    fn into_json(self) -> Self::Json {
        Bounded(self.to_vec())
    }

    fn from_json(json: Self::Json) -> Self {
        std::array::from_fn(|at| json.0.get(at).copied().unwrap_or(0))
    }
}

impl<const N: usize> Mirror for [u64; N] {
    type Json = Bounded<u64>;

    fn into_json(self) -> Self::Json {
        Bounded(self.to_vec())
    }

    fn from_json(json: Self::Json) -> Self {
        std::array::from_fn(|at| json.0.get(at).copied().unwrap_or(0))
    }
}
