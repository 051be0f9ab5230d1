//! What all parts of reading one interpreter have in common.

use super::code::Codes;
use super::objects::Objects;
use crate::Limits;

/// Objects and code objects, kept while they are read.
pub(super) struct Reading<'m, 'i, 'l> {
    pub(super) objects: Objects<'m, 'i>,
    pub(super) codes: Codes,
    pub(super) limits: &'l Limits,
}
