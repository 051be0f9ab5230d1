//! One file through the redactor, packed as it was.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use biopsy_redact::{Hit, Redactor, StreamSummary};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::find::{BINARY, LeftOut};
use crate::packing::Packing;

/// How much larger unpacked text may be than packed: logs of one line over and over shrink to a thousandth.
const MOST_GROWTH: u64 = 2_000;
/// What is always allowed, in bytes.
const ALWAYS: u64 = 16 << 20;
/// Members of a zip archive.
const MEMBERS: usize = 100_000;
/// Bytes of a member that are looked at to tell what it is.
const HEAD: usize = 8192;
/// What is said of what is packed once more inside.
const PACKED_TWICE: &str = "packed inside of what is packed: it cannot be looked into";
/// Level of zstd for what is written again.
const ZSTD_LEVEL: i32 = 3;

/// What came of one file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Passed {
    /// Text, unpacked.
    pub(crate) bytes_in: u64,
    /// Which rules fired.
    pub(crate) hits: Vec<Hit>,
    /// Members that were not written.
    pub(crate) left_out: Vec<LeftOut>,
}

impl Passed {
    fn add(&mut self, summary: &StreamSummary) {
        self.bytes_in += summary.bytes_in;
        for hit in &summary.hits {
            match self.hits.iter_mut().find(|known| known.rule == hit.rule) {
                Some(known) => known.count += hit.count,
                None => self.hits.push(hit.clone()),
            }
        }
    }
}

/// Takes a file through the redactor.
pub(crate) fn pass(
    redactor: &Redactor,
    file: File,
    packing: Packing,
    out: impl Write + Seek,
    stop: &dyn Fn() -> bool,
) -> io::Result<Passed> {
    let mut passed = Passed::default();
    if packing == Packing::Zip {
        archive(redactor, file, out, &mut passed, stop)?;
    } else {
        let most = most_unpacked(file.metadata()?.len());
        let text = text_of(BufReader::new(file), packing, (most, stop))?
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        passed.add(&stream(redactor, text, packing, BufWriter::new(out))?);
    }
    Ok(passed)
}

fn most_unpacked(packed: u64) -> u64 {
    packed.saturating_mul(MOST_GROWTH).max(ALWAYS)
}

/// The text in what is packed so; or why it cannot be looked into: what is unpacked may be packed again, or no text at all.
fn text_of<'r>(
    from: impl Read + 'r,
    packing: Packing,
    (most, stop): (u64, &'r dyn Fn() -> bool),
) -> io::Result<Result<impl Read + 'r, &'static str>> {
    let mut text = Bounded::new(packing.unpack(from)?, most, stop);
    let mut head = Vec::with_capacity(HEAD);
    text.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    Ok(match Packing::of_head(&head) {
        Some(Packing::Plain) => Ok(io::Cursor::new(head).chain(text)),
        Some(Packing::Gzip | Packing::Zstd | Packing::Zip) => Err(PACKED_TWICE),
        None => Err(BINARY),
    })
}

/// One stream of text, to be packed or not.
fn stream(
    redactor: &Redactor,
    text: impl Read,
    packing: Packing,
    mut to: impl Write,
) -> io::Result<StreamSummary> {
    let summary = match packing {
        Packing::Plain | Packing::Zip => redactor.stream(text, &mut to)?,
        Packing::Gzip => {
            let mut packer = GzEncoder::new(&mut to, Compression::default());
            let summary = redactor.stream(text, &mut packer)?;
            packer.finish()?;
            summary
        }
        Packing::Zstd => {
            let mut packer = zstd::Encoder::new(&mut to, ZSTD_LEVEL)?;
            let summary = redactor.stream(text, &mut packer)?;
            packer.finish()?;
            summary
        }
    };
    to.flush()?;
    Ok(summary)
}

/// All members of an archive, in their order.
fn archive(
    redactor: &Redactor,
    file: File,
    out: impl Write + Seek,
    passed: &mut Passed,
    stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(BufReader::new(file))?;
    if archive.len() > MEMBERS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has more than {MEMBERS} members"),
        ));
    }
    let mut writer = zip::ZipWriter::new(out);
    for index in 0..archive.len() {
        let mut member = archive.by_index(index)?;
        let name = member.name()?.into_owned();
        let new_name = redactor.text(&name).text.into_owned();
        let options =
            zip::write::SimpleFileOptions::default().large_file(member.size() >= u64::from(u32::MAX));
        let options = match member.last_modified() {
            Some(time) => options.last_modified_time(time),
            None => options,
        };
        if member.is_dir() {
            writer.add_directory(new_name, options)?;
            continue;
        }
        let mut head = Vec::with_capacity(HEAD);
        member.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
        let packing = match Packing::of_head(&head) {
            Some(Packing::Zip) => Err("an archive inside of an archive"),
            _ if member.is_symlink() => Err("a link"),
            Some(packing) => Ok(packing),
            None => Err(BINARY),
        };
        match packing {
            Ok(packing) => {
                let most = most_unpacked(member.compressed_size());
                let whole = Bounded::new(head.as_slice().chain(member), most, stop);
                match text_of(whole, packing, (most, stop))? {
                    Ok(text) => {
                        writer.start_file(new_name, options)?;
                        passed.add(&stream(redactor, text, packing, &mut writer)?);
                    }
                    Err(why) => {
                        passed.left_out.push(LeftOut { name: new_name.into(), why: why.to_owned() });
                    }
                }
            }
            Err(why) => passed.left_out.push(LeftOut { name: new_name.into(), why: why.to_owned() }),
        }
    }
    writer.finish()?;
    Ok(())
}

/// A reader that gives so many bytes and no more, and none when it is to stop.
struct Bounded<'s, R> {
    inner: R,
    left: u64,
    stop: &'s dyn Fn() -> bool,
}

impl<'s, R> Bounded<'s, R> {
    fn new(inner: R, most: u64, stop: &'s dyn Fn() -> bool) -> Self {
        Self { inner, left: most, stop }
    }
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("it was stopped"));
        }
        let read = self.inner.read(into)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it unpacks to more than {MOST_GROWTH} times its size"),
            )
        })?;
        Ok(read)
    }
}
