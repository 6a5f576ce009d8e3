//! Masking what is too long for memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{Finder, MASK};

/// Bytes that are read at once.
const CHUNK: usize = 256 * 1024;

/// Writes a file's masked copy beside it, readable by its owner only; nothing when there is nothing to mask.
pub(super) fn masked_copy(finder: &Finder, path: &Path) -> io::Result<Option<PathBuf>> {
    let copied = copy(finder, File::open(path)?, &mut io::sink(), Until::FirstHit)?;
    if copied.hits == 0 {
        return Ok(None);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".masked");
    let target = PathBuf::from(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&target)?;
    let done = copy(finder, File::open(path)?, &mut file, Until::End);
    if let Err(error) = done {
        // Half a copy is of no use to anybody.
        let _gone = std::fs::remove_file(&target);
        return Err(error);
    }
    Ok(Some(target))
}

/// How far a stream is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    End,
    FirstHit,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Copied {
    hits: u64,
}

/// Copies a stream with its secret values masked. What may be the beginning of a value waits for the bytes after it, so
/// that where a read ends does not matter.
fn copy(finder: &Finder, mut from: impl Read, to: &mut impl Write, until: Until) -> io::Result<Copied> {
    let mut copied = Copied::default();
    let mut window: Vec<u8> = Vec::with_capacity(CHUNK + finder.longest);
    loop {
        let before = window.len();
        let read = (&mut from)
            .take(u64::try_from(CHUNK).unwrap_or(u64::MAX))
            .read_to_end(&mut window)?;
        let ended = read == 0;
        debug_assert_eq!(window.len(), before + read);
        // A value that begins before this is in the window to its end.
        let sure = if ended {
            window.len()
        } else {
            (window.len() + 1).saturating_sub(finder.longest)
        };
        let mut done = 0;
        for hit in finder.words.find_iter(&window) {
            if hit.start() >= sure {
                break;
            }
            copied.hits += 1;
            if until == Until::FirstHit {
                return Ok(copied);
            }
            to.write_all(window.get(done..hit.start()).unwrap_or_default())?;
            to.write_all(MASK.as_bytes())?;
            done = hit.end();
        }
        let end = sure.max(done);
        to.write_all(window.get(done..end).unwrap_or_default())?;
        window.drain(..end);
        if ended {
            return Ok(copied);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redactor;
    use proptest::prelude::*;

    /// Gives a few bytes at a time, as a pipe may.
    struct Sips<'a>(&'a [u8], usize);

    impl Read for Sips<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let some = self.0.len().min(self.1).min(buffer.len());
            buffer[..some].copy_from_slice(&self.0[..some]);
            self.0 = &self.0[some..];
            Ok(some)
        }
    }

    fn masked(redactor: &Redactor, text: &[u8], sip: usize) -> Vec<u8> {
        let known = redactor.known();
        let finder = known.finder.as_ref().unwrap();
        let mut out = Vec::new();
        copy(finder, Sips(text, sip), &mut out, Until::End).unwrap();
        out
    }

    #[test]
    fn a_value_across_the_border_of_two_reads_is_masked() {
        let redactor = Redactor::new(["canary-value".to_owned(), "canary-value-longer".to_owned()]);
        for shift in 0..20 {
            let mut text = vec![b'.'; CHUNK - 20 + shift];
            text.extend_from_slice(b"canary-value-longer|canary-value|canary-val");
            let out = masked(&redactor, &text, CHUNK);
            let kept = &out[CHUNK - 20 + shift..];
            assert_eq!(
                String::from_utf8_lossy(kept),
                "[secret]|[secret]|canary-val",
                "{shift}"
            );
        }
    }

    #[test]
    fn a_file_without_secrets_is_left_and_one_with_them_gets_a_private_copy() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let redactor = Redactor::new(["canary-value".to_owned()]);
        std::fs::write(&path, "nothing to hide").unwrap();
        assert_eq!(redactor.file(&path).unwrap(), None);
        std::fs::write(&path, b"\xff canary-value \xfe").unwrap();
        let copy = redactor.file(&path).unwrap().unwrap();
        assert_eq!(std::fs::read(&copy).unwrap(), b"\xff [secret] \xfe");
        assert_eq!(
            std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(Redactor::default().file(&path).unwrap(), None);
    }

    proptest! {
        #[test]
        fn where_reads_end_does_not_matter(
            text in "[ab]{0,200}",
            secrets in proptest::collection::vec("[ab]{6,9}", 1..4),
            sip in 1..40_usize,
        ) {
            let redactor = Redactor::new(secrets);
            let whole = redactor.text(text.clone());
            prop_assert_eq!(String::from_utf8(masked(&redactor, text.as_bytes(), sip)).unwrap(), whole);
        }
    }
}
