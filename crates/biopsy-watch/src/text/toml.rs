//! TOML, as the same tree.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::node::{DEEPEST, Member, Node, SyntaxError, Value};

/// Parses a text.
///
/// # Errors
/// Where it stops making sense.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let table = DeTable::parse(text).map_err(|error| SyntaxError {
        at: error.span().map_or(0, |span| span.start),
        message: error.message().to_owned(),
    })?;
    let span = table.span();
    let members = map(table.into_inner(), DEEPEST)?;
    Ok(Node { span, value: Value::Map(members) })
}

// Recursion ends at `DEEPEST`; the parser of the library has a limit of its own, above that.
fn node(value: Spanned<DeValue<'_>>, depth: usize) -> Result<Node, SyntaxError> {
    let span = value.span();
    let Some(depth) = depth.checked_sub(1) else {
        return Err(SyntaxError { at: span.start, message: format!("nested deeper than {DEEPEST}") });
    };
    let number = |text: &str| {
        text.replace('_', "").parse().map_err(|_| SyntaxError {
            at: span.start,
            message: "numbers are written with decimal digits here".to_owned(),
        })
    };
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(integer) => Value::Number(number(integer.as_str())?),
        DeValue::Float(float) => Value::Number(number(float.as_str())?),
        DeValue::Boolean(switch) => Value::Switch(switch),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::Array(list) => {
            Value::List(list.into_iter().map(|one| node(one, depth)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Map(map(table, depth)?),
    };
    Ok(Node { span, value })
}

fn map(table: DeTable<'_>, depth: usize) -> Result<Vec<Member>, SyntaxError> {
    let member = |(key, value): (Spanned<std::borrow::Cow<'_, str>>, _)| {
        let key_span = key.span();
        Ok(Member { key: key.into_inner().into_owned(), key_span, node: node(value, depth)? })
    };
    table.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;

    #[test]
    fn the_same_tree() {
        let text = "version = 1\n[watch.rules.slow]\nwho = \"Compiler\"\nperDay = 1_0\n\"when\" = [\"cpu>90%:30s\"]\n";
        let root = parse(text).unwrap();
        let rule = root.at(&["watch", "rules", "slow"]).unwrap();
        assert_eq!(rule.get("perday").unwrap().number(), Some(10.0));
        assert_eq!(rule.get("when").unwrap().texts(), ["cpu>90%:30s"]);
        assert_eq!(&text[rule.get("who").unwrap().span.clone()], "\"Compiler\"");
    }

    #[test]
    fn mistakes_have_a_place() {
        let text = "version = 1\n[watch\n";
        let error = parse(text).unwrap_err();
        assert_eq!(Place::of(text, error.at).line, 2, "{error}");
        assert!(parse("a = inf\n").is_ok());
        assert!(parse(&format!("a = {}", "[".repeat(5000))).is_err());
    }
}
