//! The spawner of tests.

fn main() -> std::process::ExitCode {
    pentad_process::spawner_main()
}
