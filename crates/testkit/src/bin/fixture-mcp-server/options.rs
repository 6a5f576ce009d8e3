//! The switches of the fixture server.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Which opening the server accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `initialize`, as up to 2025-11-25.
    Legacy,
    /// `server/discover` only, as in 2026-07-28.
    Modern,
}

/// How this run of the server behaves.
pub struct Options {
    pub protocol: Protocol,
    pub start_delay: Duration,
    pub hang_on_start: bool,
    pub exit_at_once: Option<u8>,
    pub ignore_eof: bool,
    pub ignore_term: bool,
    pub stderr: Option<String>,
    /// Unreadable lines written before anything else.
    pub garbage_at_start: u64,
    /// Unreadable lines written before each answer.
    pub garbage: u64,
    /// Writes unreadable lines for ever and answers nothing.
    pub flood: bool,
    pub many: usize,
    pub page_size: usize,
    pub endless_pages: bool,
    pub odd_names: bool,
    pub odd_schemas: bool,
    pub broken_tool: bool,
    pub witness: Option<PathBuf>,
}

impl Options {
    /// Reads the switches, refusing unknown ones.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            protocol: Protocol::Legacy,
            start_delay: Duration::ZERO,
            hang_on_start: false,
            exit_at_once: None,
            ignore_eof: false,
            ignore_term: false,
            stderr: None,
            garbage_at_start: 0,
            garbage: 0,
            flood: false,
            many: 0,
            page_size: usize::MAX,
            endless_pages: false,
            odd_names: false,
            odd_schemas: false,
            broken_tool: false,
            witness: None,
        };
        while let Some(switch) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{switch} needs a value"));
            match switch.as_str() {
                "--modern" => options.protocol = Protocol::Modern,
                "--start-delay-ms" => options.start_delay = Duration::from_millis(number(&value()?)?),
                "--hang-on-start" => options.hang_on_start = true,
                "--exit-at-once" => options.exit_at_once = Some(number(&value()?)?),
                "--ignore-eof" => options.ignore_eof = true,
                "--ignore-term" => options.ignore_term = true,
                "--stderr" => options.stderr = Some(value()?),
                "--garbage-at-start" => options.garbage_at_start = number(&value()?)?,
                "--garbage" => options.garbage = number(&value()?)?,
                "--flood" => options.flood = true,
                "--many" => options.many = number(&value()?)?,
                "--page-size" => options.page_size = number(&value()?)?,
                "--endless-pages" => options.endless_pages = true,
                "--odd-names" => options.odd_names = true,
                "--odd-schemas" => options.odd_schemas = true,
                "--broken-tool" => options.broken_tool = true,
                "--witness" => options.witness = Some(value()?.into()),
                _ => return Err(format!("unknown switch {switch}")),
            }
        }
        Ok(options)
    }

    /// Appends one line to the witness file in one write, so that concurrent servers never mix lines.
    pub fn witness(&self, line: &str) {
        let Some(path) = &self.witness else { return };
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let written = opened.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            eprintln!("fixture-mcp-server: {}: {error}", path.display());
        }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{text} is not a number in range"))
}
