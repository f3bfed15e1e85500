// The folder in which all holders of a lock write down their turns, so that two holders inside at once are seen.
// Its contents and rules are described in src/peers/ground.rs.

package main

import (
	"fmt"
	"io/ioutil"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The pause between reading and writing a counted file that is not on a ground.
const stay = time.Millisecond

// All that go-zookeeper has is a mutex: no other holder may be inside.
const mode = "write"

// Goes in, looks for other holders, and leaves, under a lock that is held; answers how many were inside, itself
// included.
func visit(folder, who, node string) (int, error) {
	marker := mode + "." + who
	own := filepath.Join(folder, "inside", marker)
	file, err := os.OpenFile(own, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, err
	}
	entries, err := ioutil.ReadDir(filepath.Join(folder, "inside"))
	if err != nil {
		return 0, err
	}
	var met []string
	for _, entry := range entries {
		if entry.Name() != marker {
			met = append(met, entry.Name())
		}
	}
	if len(met) > 0 {
		if err := appendLine(filepath.Join(folder, "faults"), marker+" met "+strings.Join(met, " ")); err != nil {
			return 0, err
		}
	}
	grant := strings.Join([]string{mode, who, node}, "\t")
	if err := appendLine(filepath.Join(folder, "grants"), grant); err != nil {
		return 0, err
	}
	millis, err := readNumber(filepath.Join(folder, "stay"))
	if err != nil {
		return 0, err
	}
	if err := increment(filepath.Join(folder, "number"), time.Duration(millis)*time.Millisecond); err != nil {
		return 0, err
	}
	return len(entries), os.Remove(own)
}

// Reads the number in a file and writes it plus one, with time in between.
func increment(path string, stay time.Duration) error {
	number, err := readNumber(path)
	if err != nil {
		return err
	}
	time.Sleep(stay)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprint(file, number+1)
	return err
}

func readNumber(path string) (int64, error) {
	text, err := ioutil.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	return err
}
