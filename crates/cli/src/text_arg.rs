//! Text that is given on the command line, in a file or on standard input.

use std::io::Read;
use std::path::Path;

use anyhow::Context;

use crate::failure::usage;

/// Most bytes that are read from a file or standard input.
const MOST: u64 = 64 * 1024 * 1024;

/// Returns the text that an argument means: `-` is standard input, `@FILE` a file, `@@x` the text `@x`.
///
/// # Errors
/// Fails when the file cannot be read, is too large or is no UTF-8.
pub fn text(argument: &str) -> anyhow::Result<String> {
    if argument == "-" {
        return read(std::io::stdin().lock(), "standard input");
    }
    match argument.strip_prefix('@') {
        None => Ok(argument.to_owned()),
        Some(rest) if rest.starts_with('@') => Ok(rest.to_owned()),
        Some("") => Err(usage(
            "'@' names no file; write @FILE, or @@ for a text that begins with @",
        )),
        Some(path) => {
            let file = std::fs::File::open(Path::new(path))
                .with_context(|| format!("{path} cannot be read; write @@{path} if this is no file"))?;
            read(file, path)
        }
    }
}

fn read(source: impl Read, name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    source
        .take(MOST + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("{name} cannot be read"))?;
    if bytes.len() as u64 > MOST {
        anyhow::bail!("{name} has more than 64 MiB; pentad attach FILE keeps large files");
    }
    String::from_utf8(bytes).map_err(|_| {
        anyhow::anyhow!(
            "{name} is no UTF-8 text; pentad attach FILE keeps any bytes, and write … --option fromAttachment=CID copies them"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_from_three_places() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        std::fs::write(&file, "from file\n").unwrap();
        assert_eq!(text("plain").unwrap(), "plain");
        assert_eq!(text("").unwrap(), "");
        assert_eq!(text("@@handle").unwrap(), "@handle");
        assert_eq!(text(&format!("@{}", file.display())).unwrap(), "from file\n");
        assert!(text("@").is_err());
        let missing = text("@/nowhere/x").unwrap_err();
        assert!(missing.to_string().contains("@@/nowhere/x"), "{missing}");
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        let binary = text(&format!("@{}", file.display())).unwrap_err();
        assert!(binary.to_string().contains("pentad attach"), "{binary}");
    }
}
