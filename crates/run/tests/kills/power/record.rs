//! What a process did to the files of its database, in order.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// One thing that was done, or said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Bytes were written.
    Write {
        file: String,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A file was cut, or grew.
    Truncate { file: String, size: u64 },
    /// A file was synced.
    Sync { file: String },
    /// A file was deleted.
    Delete { file: String },
    /// Somebody was told that something is safe.
    Said { text: String },
}

/// A deed, and how much of the witness there was before it.
#[derive(Debug, Clone)]
pub struct Record {
    pub witness: u64,
    pub deed: Deed,
}

struct Recorder {
    log: Mutex<File>,
    witness: PathBuf,
}

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Begins to record into a file.
pub fn begin(log: &Path, witness: &Path) {
    let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
    let recorder = Recorder {
        log: Mutex::new(log),
        witness: witness.to_owned(),
    };
    assert!(RECORDER.set(recorder).is_ok(), "recording has begun");
}

/// Notes that somebody is told that something is safe. Nothing in a process that is not recorded.
pub fn said(text: &str) {
    if RECORDER.get().is_some() {
        around(b'a', text, 0, &[], || ());
    }
}

/// Records a deed and does it, as one: whatever is recorded later was done later.
pub fn around<T>(kind: u8, name: &str, number: u64, bytes: &[u8], deed: impl FnOnce() -> T) -> T {
    let Some(recorder) = RECORDER.get() else {
        return deed();
    };
    let name = name.rsplit('/').next().unwrap_or(name);
    let mut log = recorder.log.lock().unwrap();
    let witness = std::fs::metadata(&recorder.witness).map_or(0, |metadata| metadata.len());
    let mut line = vec![kind, u8::try_from(name.len()).unwrap()];
    line.extend(name.as_bytes());
    for word in [number, witness, bytes.len() as u64] {
        line.extend(word.to_le_bytes());
    }
    line.extend(bytes);
    log.write_all(&line).unwrap();
    deed()
}

/// Reads a whole record.
pub fn read(log: &Path) -> Vec<Record> {
    let mut bytes = Vec::new();
    File::open(log).unwrap().read_to_end(&mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    while let Some((kind, tail)) = rest.split_first() {
        rest = tail;
        let length = take(&mut rest, 1)[0];
        let name = String::from_utf8(take(&mut rest, length.into()).to_vec()).unwrap();
        let mut word = || u64::from_le_bytes(take(&mut rest, 8).try_into().unwrap());
        let (number, witness, length) = (word(), word(), word());
        let bytes = take(&mut rest, usize::try_from(length).unwrap()).to_vec();
        let deed = match kind {
            b'w' => Deed::Write {
                file: name,
                offset: number,
                bytes,
            },
            b't' => Deed::Truncate {
                file: name,
                size: number,
            },
            b's' => Deed::Sync { file: name },
            b'd' => Deed::Delete { file: name },
            b'a' => Deed::Said { text: name },
            other => panic!("no deed {other}"),
        };
        records.push(Record { witness, deed });
    }
    records
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (head, tail) = rest.split_at(length);
    *rest = tail;
    head
}

/// A disk: what is safe of each file, and what was done to it since.
#[derive(Default)]
pub struct Disk {
    files: BTreeMap<String, Image>,
}

#[derive(Default)]
struct Image {
    safe: Vec<u8>,
    since: Vec<Deed>,
}

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

impl Disk {
    /// Does a deed.
    pub fn apply(&mut self, deed: &Deed) {
        match deed {
            Deed::Write { file, .. } | Deed::Truncate { file, .. } => {
                self.files
                    .entry(file.clone())
                    .or_default()
                    .since
                    .push(deed.clone());
            }
            Deed::Sync { file } => {
                let image = self.files.entry(file.clone()).or_default();
                for deed in std::mem::take(&mut image.since) {
                    change(&mut image.safe, &deed, &mut |_| true);
                }
            }
            // Names are taken to be safe at once: the folder's syncs are not recorded.
            Deed::Delete { file } => {
                self.files.remove(file);
            }
            Deed::Said { .. } => {}
        }
    }

    /// Returns the files after a power loss: of what was not synced, `keeps` says of each sector whether it is there.
    pub fn lose(&self, mut keeps: impl FnMut() -> bool) -> BTreeMap<String, Vec<u8>> {
        let lost = self.files.iter().map(|(name, image)| {
            let mut bytes = image.safe.clone();
            for deed in &image.since {
                change(&mut bytes, deed, &mut |_| keeps());
            }
            (name.clone(), bytes)
        });
        lost.collect()
    }
}

fn change(file: &mut Vec<u8>, deed: &Deed, keeps: &mut dyn FnMut(usize) -> bool) {
    match deed {
        Deed::Write { offset, bytes, .. } => {
            let mut at = usize::try_from(*offset).unwrap();
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (part, tail) = rest.split_at((SECTOR - at % SECTOR).min(rest.len()));
                if keeps(at) {
                    if file.len() < at + part.len() {
                        file.resize(at + part.len(), 0);
                    }
                    file[at..at + part.len()].copy_from_slice(part);
                }
                (at, rest) = (at + part.len(), tail);
            }
        }
        Deed::Truncate { size, .. } => {
            let size = usize::try_from(*size).unwrap();
            if keeps(size) {
                file.resize(size, 0);
            }
        }
        Deed::Sync { .. } | Deed::Delete { .. } | Deed::Said { .. } => {}
    }
}
