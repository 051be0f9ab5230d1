//! Names as the programmer wrote them, of what the compiler made of async methods, lambdas and generics.
