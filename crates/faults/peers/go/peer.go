// The commands.

package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

const sequenceDigits = 10

type peer struct {
	conn *zk.Conn
	// The locks that are held, by path.
	held map[string]*zk.Lock
}

func newPeer(conn *zk.Conn) *peer {
	return &peer{conn: conn, held: map[string]*zk.Lock{}}
}

func (p *peer) run(command string, arguments []string) ([]string, error) {
	if command == "revoke" {
		_, err := p.conn.Set(arguments[0], []byte("__REVOKE__"), -1)
		return nil, err
	}
	kind, path := arguments[0], arguments[1]
	if kind != "mutex" {
		return nil, errors.New("go-zookeeper has no " + kind)
	}
	switch command {
	case "lock":
		millis, err := strconv.ParseInt(arguments[2], 10, 64)
		if err != nil {
			return nil, err
		}
		return yesOrNo(p.lock(path, time.Duration(millis)*time.Millisecond))
	case "release":
		return yesOrNo(p.release(path))
	case "count":
		rounds, err := strconv.Atoi(arguments[3])
		if err != nil {
			return nil, err
		}
		_, err = p.rounds(path, rounds, func(*zk.Lock) (int, error) { return 1, increment(arguments[2], stay) })
		return nil, err
	case "turns":
		threads, err := strconv.Atoi(arguments[3])
		if err != nil {
			return nil, err
		}
		rounds, err := strconv.Atoi(arguments[4])
		if err != nil {
			return nil, err
		}
		most, err := p.turns(path, arguments[2], threads, rounds)
		return []string{strconv.Itoa(most)}, err
	case "participants":
		return p.participants(path)
	case "node":
		lock, held := p.held[path]
		if !held {
			return nil, zk.ErrNotLocked
		}
		return []string{nodeOf(lock)}, nil
	default:
		return nil, errors.New("no command " + command)
	}
}

func (p *peer) newLock(path string) *zk.Lock {
	return zk.NewLock(p.conn, path, zk.WorldACL(zk.PermAll))
}

// Locks within the time. The client cannot stop waiting: after the time its node stays in the queue, and is unlocked at
// once when its turn comes.
func (p *peer) lock(path string, within time.Duration) (bool, error) {
	if _, held := p.held[path]; held {
		return false, zk.ErrDeadlock
	}
	if within == 0 {
		return false, errors.New("go-zookeeper cannot try")
	}
	lock := p.newLock(path)
	locked := make(chan error, 1)
	go func() { locked <- lock.Lock() }()
	var late <-chan time.Time
	if within > 0 {
		late = time.After(within)
	}
	select {
	case err := <-locked:
		if err == nil {
			p.held[path] = lock
		}
		return err == nil, err
	case <-late:
		go func() {
			if <-locked == nil {
				// A waiter behind it sees a failure; no caller is left here to tell.
				_ = lock.Unlock()
			}
		}()
		return false, nil
	}
}

func (p *peer) release(path string) (bool, error) {
	lock, held := p.held[path]
	if !held {
		return false, nil
	}
	delete(p.held, path)
	return true, lock.Unlock()
}

// Takes turns on the ground in several goroutines, each with its own lock; answers the most that any of them met
// inside, itself among them.
func (p *peer) turns(path, folder string, threads, rounds int) (int, error) {
	var group sync.WaitGroup
	most, failures := make([]int, threads), make([]error, threads)
	for index := 0; index < threads; index++ {
		group.Add(1)
		go func(index int) {
			defer group.Done()
			who := fmt.Sprintf("%d.%d", os.Getpid(), index)
			most[index], failures[index] = p.rounds(path, rounds, func(lock *zk.Lock) (int, error) {
				node := nodeOf(lock)
				return visit(folder, who, node[strings.LastIndex(node, "/")+1:])
			})
		}(index)
	}
	group.Wait()
	highest := 0
	for index := range most {
		if failures[index] != nil {
			return 0, failures[index]
		}
		if most[index] > highest {
			highest = most[index]
		}
	}
	return highest, nil
}

// Locks and unlocks this often, doing something in between; answers the highest number that it answered.
func (p *peer) rounds(path string, rounds int, do func(*zk.Lock) (int, error)) (int, error) {
	lock, highest := p.newLock(path), 0
	for ; rounds > 0; rounds-- {
		if err := lock.Lock(); err != nil {
			return 0, err
		}
		number, failure := do(lock)
		if err := lock.Unlock(); err != nil {
			return 0, err
		}
		if failure != nil {
			return 0, failure
		}
		if number > highest {
			highest = number
		}
	}
	return highest, nil
}

func (p *peer) participants(path string) ([]string, error) {
	names, _, err := p.conn.Children(path)
	if err == zk.ErrNoNode {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sequence := func(name string) string {
		if len(name) < sequenceDigits {
			return name
		}
		return name[len(name)-sequenceDigits:]
	}
	sort.Slice(names, func(i, j int) bool { return sequence(names[i]) < sequence(names[j]) })
	return names, nil
}

// The path of the node that a lock holds. The client does not show it; it lies in a field of this name.
func nodeOf(lock *zk.Lock) string {
	return reflect.ValueOf(lock).Elem().FieldByName("lockPath").String()
}

func yesOrNo(yes bool, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	if yes {
		return []string{"yes"}, nil
	}
	return []string{"no"}, nil
}
