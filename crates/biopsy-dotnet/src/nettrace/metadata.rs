//! Descriptions of events: who speaks, what about, and how the payload is written.

use super::limits::Limits;
use super::text::{name16, text8};
use super::types::{Dialect, Field, TypeParser};
use biopsy_bytes::{Cursor, ReadError};
use std::hash::{Hash, Hasher};

/// Describes one kind of event. Equal ones have equal fingerprints, also in other streams.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventMetadata {
    /// Who speaks: `Microsoft-Windows-DotNETRuntime`.
    pub provider: String,
    /// The event's number with this provider.
    pub id: u32,
    /// Its name; empty for the runtime's own events in most versions.
    pub name: String,
    /// Groups it belongs to, a bit each.
    pub keywords: u64,
    /// Version of the event's payload.
    pub version: u32,
    /// 1 critical, 2 error, 3 warning, 4 informational, 5 verbose.
    pub level: u32,
    /// 1 start, 2 stop ..., where reported.
    pub opcode: Option<u8>,
    /// How the payload is written; empty where the stream does not say.
    pub fields: Vec<Field>,
    /// A hash of all this, the same in every run: for tables of decoders.
    pub fingerprint: u64,
}

impl EventMetadata {
    pub(super) fn seal(mut self) -> Self {
        let mut hasher = rustc_hash::FxHasher::default();
        (&self.provider, self.id, &self.name, self.version, &self.fields).hash(&mut hasher);
        self.fingerprint = hasher.finish();
        self
    }
}

/// A record of a metadata block of versions 4 and 5, and the number that events name it by.
pub(super) fn parse_first(
    mut cursor: Cursor<'_>,
    limits: &Limits,
) -> Result<(u32, EventMetadata), ReadError> {
    let number = cursor.u32("MetaDataId")?;
    let mut metadata = EventMetadata {
        provider: name16(&mut cursor, "ProviderName", limits.text)?,
        id: cursor.u32("EventId")?,
        name: name16(&mut cursor, "EventName", limits.text)?,
        keywords: cursor.u64("Keywords")?,
        version: cursor.u32("Version")?,
        level: cursor.u32("Level")?,
        ..EventMetadata::default()
    };
    // What describes the payload may be of a later version: then the event is one without description.
    let _ = parse_first_rest(&mut cursor, limits, &mut metadata);
    Ok((number, metadata.seal()))
}

fn parse_first_rest(
    cursor: &mut Cursor<'_>,
    limits: &Limits,
    metadata: &mut EventMetadata,
) -> Result<(), ReadError> {
    if cursor.is_empty() {
        return Ok(());
    }
    metadata.fields = TypeParser::new(Dialect::First, limits).fields(cursor)?;
    while !cursor.is_empty() {
        let size = cursor.u32("TagPayloadBytes")?;
        let kind = cursor.u8("TagKind")?;
        let mut tag = cursor.sub("tag", usize::try_from(size).unwrap_or(usize::MAX))?;
        match kind {
            1 => metadata.opcode = Some(tag.u8("OpCode")?),
            2 => metadata.fields = TypeParser::new(Dialect::Second, limits).fields(&mut tag)?,
            _ => (),
        }
    }
    Ok(())
}

/// A row of a metadata block of version 6.
pub(super) fn parse_sixth(
    mut cursor: Cursor<'_>,
    limits: &Limits,
) -> Result<(u32, EventMetadata), ReadError> {
    let number = cursor.varint_u32("MetaDataId")?;
    let mut metadata = EventMetadata {
        provider: text8(&mut cursor, "ProviderName", limits.text)?,
        id: cursor.varint_u32("EventId")?,
        name: text8(&mut cursor, "EventName", limits.text)?,
        ..EventMetadata::default()
    };
    metadata.fields = TypeParser::new(Dialect::Sixth, limits).fields(&mut cursor)?;
    let size = cursor.u16("OptionalMetadata")?;
    let mut optional = cursor.sub("OptionalMetadata", size.into())?;
    let _ = parse_optional(&mut optional, limits, &mut metadata);
    Ok((number, metadata.seal()))
}

fn parse_optional(
    cursor: &mut Cursor<'_>,
    limits: &Limits,
    metadata: &mut EventMetadata,
) -> Result<(), ReadError> {
    while !cursor.is_empty() {
        match cursor.u8("Kind")? {
            1 => metadata.opcode = Some(cursor.u8("OpCode")?),
            3 => metadata.keywords = cursor.u64("Keywords")?,
            // MessageTemplate, Description.
            4 | 5 => drop(text8(cursor, "text", limits.text)?),
            6 => {
                text8(cursor, "Key", limits.text)?;
                text8(cursor, "Value", limits.text)?;
            }
            7 => cursor.skip("ProviderGuid", 16)?,
            8 => metadata.level = cursor.u8("Level")?.into(),
            9 => metadata.version = cursor.u8("Version")?.into(),
            // Of an unknown kind the length is unknown too.
            _ => break,
        }
    }
    Ok(())
}
