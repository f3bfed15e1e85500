// Drives go-zookeeper's lock for the tests: one command a line on standard input, one answer a line on standard output.
//
// Fields are separated by tabs. Arguments: connection string, session timeout in milliseconds. The first line written
// is "ok" once the session stands. The commands are those of CuratorPeer.java that concern a mutex.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

const connectedWithin = 30 * time.Second

// The client writes what it does to standard error; the tests do not want it.
type silent struct{}

func (silent) Printf(string, ...interface{}) {}

func connect(servers string, timeout time.Duration) (*zk.Conn, error) {
	conn, events, err := zk.Connect(strings.Split(servers, ","), timeout, func(conn *zk.Conn) {
		conn.SetLogger(silent{})
	})
	if err != nil {
		return nil, err
	}
	deadline := time.After(connectedWithin)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return conn, nil
			}
		case <-deadline:
			return nil, errors.New("not connected")
		}
	}
}

func answer(first string, fields ...string) {
	line := strings.Join(append([]string{first}, fields...), "\t")
	fmt.Println(strings.ReplaceAll(line, "\n", " "))
}

func main() {
	timeout, err := time.ParseDuration(os.Args[2] + "ms")
	if err != nil {
		answer("error", err.Error())
		return
	}
	conn, err := connect(os.Args[1], timeout)
	if err != nil {
		answer("error", err.Error())
		return
	}
	answer("ok")
	peer := newPeer(conn)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		fields := strings.Split(commands.Text(), "\t")
		found, err := peer.run(fields[0], fields[1:])
		if err != nil {
			answer("error", err.Error())
		} else {
			answer("ok", found...)
		}
	}
	conn.Close()
}
