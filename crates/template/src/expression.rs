//! Whole-number arithmetic inside placeholders, such as `{_(index+1)}`.

use crate::error::ExpandError;
use crate::placeholder::{Lookup, is_name_part, is_name_start};
use crate::value::plain_text;

const MAX_NESTING: usize = 64;
const MAX_PADDING: usize = 6;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Int(i64),
    Name(String),
    Sign(char),
    /// A character or number outside the grammar: an error once evaluation gets there.
    Foreign,
}

/// Holds a tokenized expression.
///
/// Evaluation walks the tokens, so an unusable name is reported before a later mistake in the grammar, which is the
/// order in which a reader meets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expression {
    source: String,
    pad: usize,
    tokens: Vec<Token>,
}

/// Tells whether the content of a placeholder can only be arithmetic.
pub(crate) fn looks_arithmetic(content: &str) -> bool {
    content.contains(['(', ')', '+', '-', '*', '/', '%'])
}

impl Expression {
    /// Reads an expression; never fails, since mistakes are reported on evaluation.
    pub(crate) fn read(content: &str) -> Self {
        let source: String = content.chars().filter(|c| !crate::words::is_space(*c)).collect();
        let underscores = source.chars().take_while(|c| *c == '_').count();
        let inner = source
            .strip_prefix(&"_".repeat(underscores))
            .and_then(|rest| rest.strip_prefix('('))
            .and_then(|rest| rest.strip_suffix(')'))
            .filter(|inner| !inner.is_empty() && (1..=MAX_PADDING).contains(&underscores));
        let (pad, tokens) = match inner {
            Some(inner) => (underscores + 1, tokenize(inner)),
            None => (0, tokenize(&source)),
        };
        Self { source, pad, tokens }
    }

    /// Returns the value as text, padded with zeros if the expression asks for it.
    pub(crate) fn evaluate(&self, values: &impl Lookup) -> Result<String, ExpandError> {
        let mut walk = Walk {
            expression: self,
            values,
            at: 0,
        };
        let result = walk.sum(0)?;
        if walk.at != self.tokens.len() {
            return Err(self.malformed());
        }
        let width = self.pad;
        Ok(if result < 0 {
            format!(
                "-{:0>width$}",
                result.unsigned_abs(),
                width = width.saturating_sub(1)
            )
        } else {
            format!("{result:0>width$}")
        })
    }

    fn malformed(&self) -> ExpandError {
        ExpandError::Expression {
            source_text: self.source.clone(),
        }
    }

    fn out_of_range(&self) -> ExpandError {
        ExpandError::OutOfRange {
            source_text: self.source.clone(),
        }
    }
}

fn tokenize(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let start = at;
        if c.is_ascii_digit() {
            while chars.get(at).is_some_and(char::is_ascii_digit) {
                at += 1;
            }
            let digits: String = chars.get(start..at).unwrap_or_default().iter().collect();
            tokens.push(digits.parse().map_or(Token::Foreign, Token::Int));
        } else if is_name_start(c) {
            // A dash belongs to the name unless a number follows: `a-b` is a name, `a-1` a subtraction.
            while let Some(&part) = chars.get(at) {
                let joins = is_name_part(part)
                    && (part != '-' || chars.get(at + 1).is_some_and(|next| is_name_start(*next)));
                if !joins {
                    break;
                }
                at += 1;
            }
            tokens.push(Token::Name(
                chars.get(start..at).unwrap_or_default().iter().collect(),
            ));
        } else {
            at += 1;
            tokens.push(if "()+-*/%".contains(c) {
                Token::Sign(c)
            } else {
                Token::Foreign
            });
        }
    }
    tokens
}

struct Walk<'a, L> {
    expression: &'a Expression,
    values: &'a L,
    at: usize,
}

impl<L: Lookup> Walk<'_, L> {
    fn sign(&mut self, wanted: &[char]) -> Option<char> {
        match self.expression.tokens.get(self.at) {
            Some(Token::Sign(sign)) if wanted.contains(sign) => {
                self.at += 1;
                Some(*sign)
            }
            _ => None,
        }
    }

    fn sum(&mut self, depth: usize) -> Result<i64, ExpandError> {
        let mut left = self.product(depth)?;
        while let Some(sign) = self.sign(&['+', '-']) {
            let right = self.product(depth)?;
            let result = if sign == '+' {
                left.checked_add(right)
            } else {
                left.checked_sub(right)
            };
            left = result.ok_or_else(|| self.expression.out_of_range())?;
        }
        Ok(left)
    }

    fn product(&mut self, depth: usize) -> Result<i64, ExpandError> {
        let mut left = self.atom(depth)?;
        while let Some(sign) = self.sign(&['*', '/', '%']) {
            let right = self.atom(depth)?;
            if sign != '*' && right == 0 {
                return Err(ExpandError::DivisionByZero {
                    source_text: self.expression.source.clone(),
                });
            }
            let result = match sign {
                '*' => left.checked_mul(right),
                '/' => left.checked_div(right),
                _ => left.checked_rem(right),
            };
            left = result.ok_or_else(|| self.expression.out_of_range())?;
        }
        Ok(left)
    }

    fn atom(&mut self, depth: usize) -> Result<i64, ExpandError> {
        if depth > MAX_NESTING {
            return Err(self.expression.malformed());
        }
        if self.sign(&['(']).is_some() {
            let inner = self.sum(depth + 1)?;
            return match self.sign(&[')']) {
                Some(_) => Ok(inner),
                None => Err(self.expression.malformed()),
            };
        }
        match self.expression.tokens.get(self.at) {
            Some(Token::Int(number)) => {
                self.at += 1;
                Ok(*number)
            }
            Some(Token::Name(name)) => {
                self.at += 1;
                self.named(name)
            }
            _ => Err(self.expression.malformed()),
        }
    }

    fn named(&self, name: &str) -> Result<i64, ExpandError> {
        let unusable = || ExpandError::ExpressionVariable {
            name: name.to_owned(),
        };
        let text = plain_text(self.values.get(name).ok_or_else(unusable)?);
        let digits = text.strip_prefix('-').unwrap_or(&text);
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
            return Err(unusable());
        }
        text.parse().map_err(|_| self.expression.out_of_range())
    }
}
