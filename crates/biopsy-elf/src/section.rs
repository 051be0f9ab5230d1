//! Section headers: what the parts of a file are called and what is in them.

use object::elf::{SHF_COMPRESSED, SHF_EXECINSTR, SHT_NOBITS, SectionFlags, SectionHeader64, SectionType};

use crate::source::read_up_to;
use crate::{FileHeader, LE, LittleEndian, Problem, Source};

/// Bytes of a name that are kept: longer than any section that is looked for.
const NAME: usize = 64;

type Header = SectionHeader64<LittleEndian>;

/// A section header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Name, cut at 64 bytes.
    pub name: String,
    /// `sh_type`.
    pub kind: SectionType,
    /// `sh_flags`.
    pub flags: SectionFlags,
    /// Stated address; 0 when it is not loaded.
    pub address: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// `sh_link`: for symbols the number of the section with their names.
    pub link: u32,
}

impl Section {
    /// It has bytes in this file: debug files keep headers of sections whose bytes they left out.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        self.kind != SHT_NOBITS && self.size > 0
    }

    /// It is code.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        self.flags.contains(SHF_EXECINSTR)
    }

    /// Its bytes begin with a compression header.
    #[must_use]
    pub fn is_compressed(&self) -> bool {
        self.flags.contains(SHF_COMPRESSED)
    }
}

impl FileHeader {
    /// The section headers that are there, at most `most`: fewer than `self.sections.count` where the file is cut off. Of their
    /// names `most_names` bytes are read; those behind are empty.
    ///
    /// # Errors
    /// When there should be some and not even one is there, or their size is wrong; and what the source says.
    pub fn read_sections<S: Source + ?Sized>(
        &self,
        source: &S,
        most: u64,
        most_names: u64,
    ) -> Result<Vec<Section>, Problem<S::Error>> {
        let raw = self.sections.read(source, "the section headers", most, |raw: &Header| *raw)?;
        let names = match raw.get(self.names as usize) {
            Some(names) => {
                let size = names.sh_size.get(LE).min(most_names);
                read_up_to(source, names.sh_offset.get(LE), size).map_err(Problem::Source)?
            }
            None => Vec::new(),
        };
        Ok(raw.iter().map(|raw| section(raw, &names)).collect())
    }
}

fn section(raw: &Header, names: &[u8]) -> Section {
    let name = names.get(raw.sh_name.get(LE) as usize..).unwrap_or_default();
    let name = name.get(..NAME).unwrap_or(name).split(|byte| *byte == 0).next().unwrap_or_default();
    Section {
        name: String::from_utf8_lossy(name).into_owned(),
        kind: raw.sh_type.get(LE),
        flags: raw.sh_flags.get(LE),
        address: raw.sh_addr.get(LE),
        offset: raw.sh_offset.get(LE),
        size: raw.sh_size.get(LE),
        link: raw.sh_link.get(LE),
    }
}
