//! Errors of substitution, of control fields and of building an argument list.

/// Says why a template could not be expanded with the given values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// A placeholder has neither a value nor a default.
    #[error("Missing {label} value: {content}")]
    Missing {
        /// Names what was being filled in: `command template` or a control field.
        label: String,
        /// Is the placeholder without its braces.
        content: String,
    },
    /// Values refer to each other more than five levels deep.
    #[error("Command template value recursion exceeded: {name}")]
    Recursion {
        /// Is the value at which expansion stopped.
        name: String,
    },
    /// An arithmetic placeholder uses a name that is no whole number.
    #[error("Invalid command template expression variable: {name}")]
    ExpressionVariable {
        /// Is the name as written.
        name: String,
    },
    /// An arithmetic placeholder is malformed.
    #[error("Invalid command template expression: {source_text}")]
    Expression {
        /// Is the expression without blanks.
        source_text: String,
    },
    /// An arithmetic placeholder divides by zero.
    #[error("Division by zero in command template expression: {source_text}")]
    DivisionByZero {
        /// Is the expression without blanks.
        source_text: String,
    },
    /// An arithmetic placeholder leaves the range of whole numbers.
    #[error("Command template expression out of range: {source_text}")]
    OutOfRange {
        /// Is the expression without blanks.
        source_text: String,
    },
    /// Substitution did more work than any sensible template needs.
    #[error(
        "Command template substitution is too large: more than {limit} {unit}. Pass large input by stdin or as a file."
    )]
    TooLarge {
        /// Is the limit that was reached.
        limit: usize,
        /// Names what is counted.
        unit: &'static str,
    },
    /// The command line has no command word.
    #[error("Command template is empty")]
    EmptyCommand,
    /// An argument contains a NUL character, which no program can receive.
    #[error(
        "Argument {index} of {command} contains a NUL character, which cannot be passed to a program. Remove it, or pass the data by stdin or as a file."
    )]
    Nul {
        /// Is the command word.
        command: String,
        /// Is the position in the argument list, the command being 0.
        index: usize,
    },
    /// One argument is longer than the system takes.
    #[error(
        "Argument {index} of {command} has {bytes} bytes; the system takes at most {limit} in one argument. Pass long input by stdin or as a file."
    )]
    ArgumentTooLong {
        /// Is the command word.
        command: String,
        /// Is the position in the argument list.
        index: usize,
        /// Is the length found.
        bytes: usize,
        /// Is the limit.
        limit: usize,
    },
    /// All arguments together are longer than the system takes.
    #[error(
        "The arguments of {command} have {bytes} bytes together; the limit is {limit}. Pass long input by stdin or as a file."
    )]
    ArgumentsTooLong {
        /// Is the command word.
        command: String,
        /// Is the length found.
        bytes: usize,
        /// Is the limit.
        limit: usize,
    },
    /// A script has no interpreter on this machine.
    #[error(
        "No interpreter available for {script}: install {choices}, or write the interpreter as the first word."
    )]
    NoInterpreter {
        /// Is the script's path.
        script: String,
        /// Lists what would do.
        choices: &'static str,
    },
    /// A control field is no number of the wanted kind.
    #[error("Command template {field} must be {wanted}.")]
    Control {
        /// Is the field's name.
        field: &'static str,
        /// Says what it must be.
        wanted: &'static str,
    },
    /// `repeat` names a list that is not among the values.
    #[error("Command template repeat could not be resolved.")]
    RepeatUnresolved,
}
