//! The spawner of this crate's tests: an example, so that it is built together with them.

use std::process::ExitCode;

fn main() -> ExitCode {
    pentad_process::spawner_main()
}
