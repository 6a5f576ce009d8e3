//! The two streams: data on stdout, everything else on stderr.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use pentad_model::text::visible;

use crate::args::{ColorChoice, Globals};
use crate::render::Rendered;

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A failure.
    Bad,
    /// A refusal or a wait.
    Caution,
    /// A next step.
    Step,
    /// Less important.
    Dim,
}

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Terminal {
    /// Print outcomes as JSON.
    pub json: bool,
    /// Whether a person watches stdout.
    pub out_is_terminal: bool,
    /// Whether a person watches stderr.
    pub err_is_terminal: bool,
    /// Whether stdout takes colours.
    pub out_colors: bool,
    /// Whether stderr takes colours.
    pub err_colors: bool,
}

impl Terminal {
    /// Looks at the streams and the environment.
    pub fn detect(globals: &Globals) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let plain = set("NO_COLOR") || dumb;
        let out = io::stdout().is_terminal();
        let err = io::stderr().is_terminal();
        let colors = |terminal: bool| match globals.color {
            ColorChoice::Auto => terminal && !plain,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        Self {
            json: globals.json,
            out_is_terminal: out,
            err_is_terminal: err,
            out_colors: colors(out),
            err_colors: colors(err),
        }
    }

    /// Paints a text of ours for stderr.
    pub fn paint_err(&self, style: Style, text: &str) -> String {
        paint(self.err_colors, style, text)
    }

    /// Paints a text of ours for stdout.
    pub fn paint_out(&self, style: Style, text: &str) -> String {
        paint(self.out_colors, style, text)
    }

    /// Makes foreign text safe for stdout: on a terminal its control characters are shown, not obeyed.
    pub fn foreign_out(&self, text: &str) -> String {
        if self.out_is_terminal {
            visible(text)
        } else {
            text.to_owned()
        }
    }

    /// Makes foreign text safe for stderr.
    pub fn foreign_err(&self, text: &str) -> String {
        if self.err_is_terminal {
            visible(text)
        } else {
            text.to_owned()
        }
    }

    /// Writes both streams and returns the exit code. A reader that went away is no failure.
    #[allow(clippy::unused_self)] // the one way to the streams
    pub fn emit(&self, rendered: &Rendered) -> ExitCode {
        let out = write_all(&mut io::stdout().lock(), rendered.out.as_bytes());
        let err = write_all(&mut io::stderr().lock(), rendered.err.as_bytes());
        match out.and(err) {
            Ok(()) => ExitCode::from(rendered.code),
            Err(_) => ExitCode::FAILURE,
        }
    }

    /// Writes data to stdout while a command goes on; tells whether anybody still reads.
    #[allow(clippy::unused_self)] // the one way to the streams
    pub fn stream(&self, text: &str) -> bool {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
    }

    /// Writes a notice to stderr while a command goes on.
    #[allow(clippy::unused_self)] // the one way to the streams
    pub fn notice(&self, text: &str) {
        let _ = write_all(&mut io::stderr().lock(), format!("{text}\n").as_bytes());
    }
}

fn write_all(stream: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn paint(colors: bool, style: Style, text: &str) -> String {
    if !colors {
        return text.to_owned();
    }
    let code = match style {
        Style::Bad => "1;31",
        Style::Caution => "1;33",
        Style::Step => "36",
        Style::Dim => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
