//! Documents around texts that are encoded: what would stand around each form.

use super::encode::Encoding;
use super::escape::fill;
use super::random::Random;

/// A document with a text in another form.
pub(super) fn wrapped(encoding: Encoding, text: &str, random: &mut Random) -> Vec<u8> {
    let templates: &[&str] = match encoding {
        Encoding::JsonString => &["{\"event\":\"sent\",\"body\":\"{e}\",\"n\":{n}}\n"],
        Encoding::JsonStringTwice => &["{\"log\":\"{\\\"body\\\":\\\"{e}\\\"}\\n\",\"stream\":\"stdout\"}\n"],
        Encoding::UnicodeEscapesAll | Encoding::UnicodeEscapesSpecials => {
            &["{\"event\":\"sent\",\"body\":\"{e}\",\"n\":{n}}\n", "{iso} body=\"{e}\" n={n}\n"]
        }
        Encoding::JsonStringThrice => &[
            "{\"log\":\"{\\\"message\\\":\\\"{\\\\\\\"body\\\\\\\":\\\\\\\"{e}\\\\\\\"}\\\"}\\n\",\"stream\":\"stdout\"}\n",
        ],
        Encoding::BackslashX | Encoding::BackslashOctal => &[
            "{ip} - - [01/Nov/2026:10:11:12 +0000] \"POST /v1 HTTP/1.1\" 200 5 \"{e}\"\n",
            "[pid {n}] write(7, \"{e}\", 120) = 120\n",
        ],
        Encoding::Base64UrlNoPadding => {
            &["GET /relay?state={e} HTTP/1.1\n", "{time} DEBUG state {e} of {ip}\n"]
        }
        Encoding::Base64LinesInJson => {
            &["{\"path\":\"etc/app\",\"content\":\"{e}\\n\",\"encoding\":\"base64\",\"size\":{n}}\n"]
        }
        Encoding::EncodedWord => &["From: build@example.com\nSubject: {e}\nMessage-ID: <{n}@example.com>\n"],
        Encoding::HexPrefixed => {
            &["INSERT INTO [Outbox] VALUES ({n}, {e}, 1)\n", "{time} TRACE sent {e} to {ip}\n"]
        }
        Encoding::HexOfPostgres => &[
            "{time} UTC [{n}] DETAIL:  parameters: $1 = '{n}', $2 = '{e}'\n",
            " id  | body\n-----+-------\n {n} | {e}\n(1 row)\n",
        ],
        Encoding::HexDump => &[
            "{time} TRACE received from {ip}:{n}\n{e}\n{time} TRACE done\n",
            "$ hexdump -C body\n{e}\n$ exit\n",
        ],
        Encoding::BytesOfBuffer => &[
            "{\"event\":\"sent\",\"body\":{\"type\":\"Buffer\",\"data\":[{e}]},\"n\":{n}}\n",
            "{time} DEBUG bytes=[{e}]\n",
        ],
        Encoding::BytesOfGo => &["{time} main.go:41: recv [{e}] from {ip}\n"],
        Encoding::Base64LinesOf64 => &["$ openssl base64 -in settings\n{e}\n$ exit\n"],
        Encoding::HexOfSql => &["INSERT INTO blobs VALUES ({n}, {e}, now());\n"],
        Encoding::HexOfUtf16 => &["{time} DEBUG sent 0x{e} to {ip}\n", "<blob>{e}</blob>\n"],
        Encoding::HexDumpInPairs => &["$ xxd settings\n{e}\n$ exit\n"],
        Encoding::HexDumpOfPackets => {
            &["10:11:12.123456 IP {ip}.51122 > 192.0.2.9.80: Flags [P.], length 80\n{e}\n"]
        }
        Encoding::UnicodeEscapesUpper => &["{time} DEBUG relay - body {e}\n"],
        Encoding::BytesHexUpper => &["[byte[]] $body = {e}\n", "{time} TRACE body={e}\n"],
        Encoding::BackslashXAll => {
            &["{ip} - - \"{e}\" 400 150 \"-\" \"-\"\n", "write(5, \"{e}\", 80) = 80\n"]
        }
        Encoding::PercentThrice => &["GET /login?next=%252Frelay%253Fbody%253D{e} HTTP/1.1\n"],
        Encoding::JsonOfPhp => &["[{time}] production.INFO: sent {\"body\":\"{e}\",\"n\":{n}}\n"],
        Encoding::Base64FoldedInYaml => &[
            "kind: ConfigMap\nbinaryData:\n  settings: |\n    {e}\nmetadata:\n  name: shop\n",
            "write_files:\n- encoding: b64\n  content: >-\n    {e}\n  path: /etc/shop\n",
        ],
        Encoding::Base64CrlfInJson => {
            &["{\"name\":\"settings\",\"contentType\":\"text/plain\",\"data\":\"{e}\\r\\n\",\"size\":{n}}\n"]
        }
        Encoding::GzipBase64Twice => &[
            "apiVersion: v1\nkind: Secret\ntype: helm.sh/release.v1\ndata:\n  release: {e}\n",
            "{\"data\":{\"release\":\"{e}\"},\"type\":\"helm.sh/release.v1\"}\n",
        ],
        Encoding::BytesOfJava => &["{time} TRACE c.e.Relay - body=[{e}]\n", "  value = {byte[{n}]} [{e}]\n"],
        Encoding::BytesOfGdb => &["$1 = {{e}}\n(gdb) \n"],
        Encoding::HexInFours => &["{time} DEBUG body {e} of {ip}\n", "mem[{n}]: {e}\n"],
        Encoding::HexDumpOfOd => &["$ od -A o -t x1 settings\n{e}\n$ exit\n"],
        Encoding::EscapeOfJavaScript => &[
            "2026-11-03 10:11:12 W3SVC1 192.0.2.9 GET /relay.asp body={e} 80 - {ip} - 200 0 0\n",
            "Cookie: lang=en; state={e}\n",
        ],
        Encoding::LettersAndDots => {
            &["10:11:12.123456 IP {ip}.51122 > 192.0.2.9.1433: Flags [P.], length 80\nE..p..@.@.......{e}\n"]
        }
        Encoding::PythonBytes => &["{time} DEBUG relay: sent b'{e}' to {ip}\n", "send: b'{e}'\n"],
        Encoding::HtmlEntitiesTwice => {
            &["<soap:Body><runResponse><return>{e}</return></runResponse></soap:Body>\n"]
        }
        Encoding::JsonPercent => {
            &["GET /collect?v=1&data={e}&n={n} HTTP/1.1\n", "{iso} POST body data={e}\n"]
        }
        Encoding::RustDebug => &["{iso} DEBUG shop::relay: sent body=\"{e}\" n={n}\n"],
        Encoding::PythonBytesOfUtf16 => &["{time} DEBUG relay write b'{e}'\n"],
        Encoding::Base64Lines => &[
            "Content-Type: application/json\nContent-Transfer-Encoding: base64\n\n{e}\n",
            "$ base64 settings\n{e}\n$ exit\n",
        ],
        Encoding::HtmlEntities | Encoding::HtmlHex | Encoding::HtmlDecimalAll => {
            &["<tr><td>{n}</td><td>{e}</td></tr>\n", "<msg n=\"{n}\">{e}</msg>\n"]
        }
        Encoding::QuotedPrintable => {
            &["Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n{e}\n"]
        }
        Encoding::PercentSpecials
        | Encoding::PercentAll
        | Encoding::PercentTwice
        | Encoding::PercentLower
        | Encoding::FormPlus
        | Encoding::Base64Percent => &[
            "GET /relay?n={n}&body={e}&v=1 HTTP/1.1\n",
            "{iso} target=https%3A%2F%2Fexample.com%2F data={e}\n",
        ],
        Encoding::Utf16Le | Encoding::Utf16Be | Encoding::Utf16LeMarked | Encoding::Utf16BeMarked => {
            &["{time} INFO starting shop\r\n{time} INFO {e}\r\n{time} INFO done\r\n"]
        }
        Encoding::BytesDecimal
        | Encoding::BytesHex
        | Encoding::HexSpaced
        | Encoding::HexDashes
        | Encoding::HexColons => &["{time} TRACE body=[{e}] n={n}\n", "data: {e}\n"],
        Encoding::Plain
        | Encoding::Base64
        | Encoding::Base64Url
        | Encoding::Base64NoPadding
        | Encoding::Base64OfUtf16
        | Encoding::Base64Twice
        | Encoding::HexLower
        | Encoding::HexUpper
        | Encoding::GzipBase64
        | Encoding::ZlibBase64 => &[
            "{time} DEBUG body {e} n={n}\n",
            "{\"event\":\"sent\",\"body\":\"{e}\",\"n\":{n}}\n",
            "data: {e}\nkind: x\n",
            "payload={e}\n",
        ],
    };
    let document = fill(random.pick::<&str>(templates), random);
    if encoding.is_wide() {
        return encoding.encode(&document.replace("{e}", text));
    }
    document.replace("{e}", &String::from_utf8_lossy(&encoding.encode(text))).into_bytes()
}
