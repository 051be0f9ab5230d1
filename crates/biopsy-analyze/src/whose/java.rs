//! Java: packages of its class library and of the usual frameworks.

use super::answer::Whose;

/// How locks and waiting are made.
#[rustfmt::skip]
const PLUMBING: &[&str] = &[
    "java.lang.Object.wait", "java.lang.Thread.", "java.util.concurrent.locks.", "jdk.internal.", "sun.misc.Unsafe.",
];

/// What packages of the class library and of the usual frameworks begin with.
#[rustfmt::skip]
const LIBRARIES: &[&str] = &[
    "akka.", "ch.qos.logback.", "com.fasterxml.jackson.", "com.google.common.", "com.google.protobuf.",
    "com.mysql.", "com.sun.", "com.zaxxer.hikari.", "io.grpc.", "io.micrometer.", "io.netty.", "io.undertow.",
    "io.vertx.", "jakarta.", "java.", "javax.", "jdk.", "kotlin.", "kotlinx.", "okhttp3.", "org.apache.catalina.",
    "org.apache.commons.", "org.apache.coyote.", "org.apache.http.", "org.apache.kafka.", "org.apache.logging.",
    "org.apache.tomcat.", "org.eclipse.jetty.", "org.hibernate.", "org.jboss.", "org.postgresql.",
    "org.slf4j.", "org.springframework.", "reactor.", "scala.", "sun.",
];

/// `java.util.HashMap.get`, also as the virtual machine writes it: `java/util/HashMap.get`, `Ljava/util/HashMap;::get`.
pub(super) fn whose(name: &str) -> Whose {
    let name = name.strip_prefix('L').filter(|rest| rest.contains(';')).unwrap_or(name);
    let is = |list: &[&str]| list.iter().any(|package| begins(name, package));
    if is(PLUMBING) {
        Whose::Plumbing
    } else if is(LIBRARIES) {
        Whose::Library
    } else {
        Whose::Program
    }
}

/// With slashes for dots.
fn begins(name: &str, package: &str) -> bool {
    let mut name = name.bytes();
    package
        .bytes()
        .all(|known| name.next().is_some_and(|byte| byte == known || byte == b'/' && known == b'.'))
}
