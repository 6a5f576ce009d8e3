//! Processes for this crate's tests: a spawner, a client to kill, and commands that misbehave.

use std::io::{self, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["__spawner"] => pentad_process::spawner_main(),
        ["flood", bytes] => done(bytes.parse().map_err(io::Error::other).and_then(flood)),
        other => {
            let _ = writeln!(io::stderr(), "unknown mode {other:?}");
            ExitCode::FAILURE
        }
    }
}

fn done(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes this many bytes to standard output in lines of 1,024 bytes, as fast as they are taken.
fn flood(bytes: u64) -> io::Result<()> {
    let mut block = vec![b'x'; 64 * 1024];
    block
        .iter_mut()
        .skip(1023)
        .step_by(1024)
        .for_each(|byte| *byte = b'\n');
    let mut out = std::fs::File::from(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?);
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left.min(64 * 1024)).unwrap_or(block.len());
        out.write_all(block.get(..count).unwrap_or(&block))?;
        left -= count as u64;
    }
    Ok(())
}
