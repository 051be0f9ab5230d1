// Goroutines that wait for everything that a goroutine can wait for; argument: what deadlocks besides.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"sort"
	"sync"
	"time"
)

type account struct {
	pad int
	mu  sync.Mutex
	bal int
}

type relay[T any] struct {
	in, out chan T
	mu      sync.RWMutex
}

func transfer(from, to *account) {
	from.mu.Lock()
	defer from.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	to.mu.Lock()
	to.bal += from.bal
	to.mu.Unlock()
}

func swap(from, to *account) {
	from.mu.Lock()
	time.Sleep(100 * time.Millisecond)
	to.mu.Lock()
	to.bal += from.bal
	to.mu.Unlock()
	from.mu.Unlock()
}

func hold(a *account) {
	a.mu.Lock()
	time.Sleep(time.Hour)
	a.bal++
	a.mu.Unlock()
}

func holdDeferred(a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	time.Sleep(time.Hour)
	a.bal++
}

func holdAll(all []*account) {
	for _, a := range all {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	time.Sleep(time.Hour)
}

func (r *relay[T]) run() {
	for v := range r.in {
		r.forward(v)
	}
}

func (r *relay[T]) forward(v T) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.out <- v
}

func upgrade(l *sync.RWMutex) {
	l.RLock()
	time.Sleep(50 * time.Millisecond)
	l.Lock()
	l.Unlock()
	l.RUnlock()
}

func small(c chan int) int      { return <-c }
func middle(c chan int) int     { return small(c) + 1 }
func deep(n int, c chan int) int {
	if n == 0 {
		return middle(c)
	}
	return deep(n-1, c) + n
}

func used(a *account) { a.mu.Lock(); a.bal++; a.mu.Unlock(); time.Sleep(time.Hour) }
func want(a *account) { a.mu.Lock(); a.bal++; a.mu.Unlock() }

type byLength []string

func (b byLength) Len() int           { return len(b) }
func (b byLength) Less(i, j int) bool { time.Sleep(time.Hour); return len(b[i]) < len(b[j]) }
func (b byLength) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

func waits() {
	c := make(chan int)
	for i := 0; i < 20; i++ {
		go deep(i, c)
	}
	go func() { c2 := make(chan string, 2); c2 <- "a"; c2 <- "b"; c2 <- "c" }()
	go func() {
		a, b := make(chan int), make(chan int)
		select {
		case <-a:
		case b <- 2:
		}
	}()
	go func() {
		select {
		case <-c:
		case <-time.After(time.Hour):
		}
	}()
	go func() { var none chan int; <-none }()
	go func() { var none chan int; none <- 1 }()
	go func() { var wg sync.WaitGroup; wg.Add(1); wg.Wait() }()
	go func() { var mu sync.Mutex; cond := sync.NewCond(&mu); mu.Lock(); cond.Wait() }()
	go func() { sort.Sort(byLength{"a", "bb"}) }()
	r := &relay[string]{in: make(chan string), out: make(chan string)}
	go r.run()
	go func() { r.in <- "x" }()
	go func() { time.Sleep(50 * time.Millisecond); r.mu.Lock() }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { bufio.NewReader(conn).ReadString('\n') }()
		}
	}()
	net.Dial("tcp", listener.Addr().String())
	go func() { r, _, _ := os.Pipe(); r.Read(make([]byte, 1)) }()
	go func() { defer func() { recover(); <-c }(); panic("inside") }()
}

func main() {
	x, y, z := &account{bal: 1}, &account{bal: 2}, &account{bal: 3}
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	switch mode {
	case "deferred":
		go transfer(x, y)
		go transfer(y, x)
	case "plain":
		go swap(x, y)
		go swap(y, x)
	case "upgrade":
		go upgrade(&sync.RWMutex{})
	case "holder":
		go used(x)
		go used(x)
		time.Sleep(50 * time.Millisecond)
		go hold(x)
		go holdDeferred(y)
		time.Sleep(50 * time.Millisecond)
		go want(x)
		go want(x)
		go want(y)
	case "loop":
		go holdAll([]*account{x, y, z})
		time.Sleep(50 * time.Millisecond)
		go want(y)
	case "leak":
		for i := 0; i < 100000; i++ {
			go func() { c := make(chan int); c <- 1 }()
		}
	default:
		waits()
	}
	time.Sleep(300 * time.Millisecond)
	fmt.Println("READY", os.Getpid())
	bufio.NewReader(os.Stdin).ReadString('\n')
}
