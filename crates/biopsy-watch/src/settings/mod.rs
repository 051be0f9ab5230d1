//! Settings: what may stand in them, what is wrong with them, and what they mean, of one file or of several layers.

mod check;
mod layers;
mod merge;
mod origin;
mod schema;
mod shape;
mod vendor;

pub use check::{Problem, meant};
pub use layers::{Layer, LayerError};
pub use merge::{CommandCheck, Settings};
pub use origin::{Origin, origins};
pub use schema::{SCHEMA_FILE, schema};
pub use shape::{Field, SETTINGS, Shape};
